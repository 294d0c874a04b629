"""An extension of hg for the load: as many connections may wait as in a web server.

``hg serve`` lets five wait to be accepted. Of more at once, the kernel resets some.
"""

from __future__ import annotations

import socketserver

socketserver.TCPServer.request_queue_size = 128
