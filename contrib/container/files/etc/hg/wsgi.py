"""hgweb of all repositories, for gunicorn."""

from mercurial import demandimport

demandimport.enable()

from mercurial.hgweb import hgweb  # noqa: E402

application = hgweb(b"/etc/hg/hgweb.conf")
