"""gunicorn for hgweb. docs/serving-git.rst says why the numbers are these."""

bind = "127.0.0.1:8000"
chdir = "/etc/hg"
wsgi_app = "wsgi:application"
user = "hg"
group = "hg"
worker_class = "gthread"
workers = 2
threads = 8
worker_connections = 8
keepalive = 0
