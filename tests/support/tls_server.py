"""A server with TLS whose certificate no authority has signed."""

import socket
import ssl
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PEM = """\
-----BEGIN PRIVATE KEY-----
MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQDIgFI41IFFDDha
KhzjSSDjGStAUDF3UOPrijf/BM4uAXSAvZcRBlspBRn0GvWzr7oAqXcrbaJxBSKS
+JUipZGPNT8hJE7f6N56ZmMyd5gwG7sD7oiHmnunY+DbdCo+7Rf/kY8HHiuom33S
ROV237WZGsLM64Rz+OQe3VWlbZabpjc7MI0OClHJ7NPGtiZ1yhRqc4tYcrjx+KAN
5eKmins/92D1nL+OBWqw6ZZzvYCevFzubLoFf397Y9msrK6OR597MpBpFxmnjngf
wNyoAUHg5J4MJMF01RPPtsZN/g6XNPv+cAQqm1cXnPaVHQBNpTJFZofuyaXUz53l
XZ/4VzJJAgMBAAECggEAB9QiLGe4aW4F+EKghfZfGJxCY6c4mzr3FJq9FNHG9tBl
5bihYKU3I4BNvbSHcfM9/RR2MPr9pqc87PCpqrnnbP2hqqVciA0eEg4+jXlSdv8U
27KGtbFq5m5gWKlDP1mUwDeagPxlAixvaqmigl758VG0bU8SiPsHoIs4sst3NToO
kEE7m3Cmx2luDIhvOZe5PxQSthNq4Dy7MvP0J3iddkNPo43hzDQ0fNVKC5j73ec0
G9B1KCsVpnhuq28LgtxcqHgkEeaw32C4rGN1HhDF06MNJUEtOqWlT55E94Hi+gXj
O/ZXmYqanAG/wzT31EBewbKFQmxBUmk6nFIE3+fmtQKBgQD1G5fF8Xj4mwOaT3RI
z20UuekwtGdqtR48GwtHD5sUXqUoVtKAd2Nqmp6eWcuPkTUUOrXbyYrXjgXU6Vmv
NfHqVncEVgTNmPqvrlDmxHcTr+u5+gaOX3KXR5SdOsNwZ6FPYln8KMTyzGjuFwbU
WxWnJKLR6ylgSP4hKY+i7cnJ9QKBgQDRaUX5I/Yxs63+uD6p5nZTWmfG8l1Lje9d
L4oSQXJyhbSBg7wdFQPjp5F8c7anRkuh8B/7bPXqky3eF+WZK2lsISSSLmPpoAVm
pAdsi4nblQBy/gkb4gzt78tU9SoLu5/rnjiSsbVLx9hb7qchIRomvLHGPkynSZ5Y
xZRC3JJuhQKBgHfDEbegMzGV3H7Lj8/7uhrEdBJeM6HJ+Yn41NvV3jpnvF8nfRdU
PnlaL2LEEViG5N6LiUxo/7QvKt5LXozj2N5dfS3bMeGbe/HXRKRdHqm57X4jkoyC
SqVsTks86T3FBOaa8cjpysGv6x1alvWvw7a1ifDz7HWldLaTbiF3+n75AoGAN4gG
ITozGB0Av/JV07IkoJfxuyUcLmP2HKz1nT+zvMDODCZF5SRkgqM2Bl2dCyCt/8Rw
hrjvQYRD/ogxv3tumljznLwmjJZ9uCk5OsSKCyupEdVhzv4T1ajoL6BPxQq9Lrsn
X2c2n2DgdAiGU1e22pzhO6PbqeTw07OZTF23iw0CgYEAoLtl1yaBEH2Hqm6OtPG1
CyGbDiwLP6RKhnV0DPp3cD69xnTxUbXwkGeF2cyxBL+3rWUMt2QSmEVYvqNJFhEH
pibjgs5NcB1MYxSDFdixXJnRM/xANeZVNMUxgkSobHmVRV9F7QmyNfoxk1tAOEvn
3gutV6Xtuy07w0c3uDJ9UT4=
-----END PRIVATE KEY-----
-----BEGIN CERTIFICATE-----
MIIDJzCCAg+gAwIBAgIUPCbbxvrqJK5SLBwLF148f6s1I1AwDQYJKoZIhvcNAQEL
BQAwFDESMBAGA1UEAwwJbG9jYWxob3N0MCAXDTI2MTEyMzA4MTA0MVoYDzIxMjYx
MDMwMDgxMDQxWjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwggEiMA0GCSqGSIb3DQEB
AQUAA4IBDwAwggEKAoIBAQDIgFI41IFFDDhaKhzjSSDjGStAUDF3UOPrijf/BM4u
AXSAvZcRBlspBRn0GvWzr7oAqXcrbaJxBSKS+JUipZGPNT8hJE7f6N56ZmMyd5gw
G7sD7oiHmnunY+DbdCo+7Rf/kY8HHiuom33SROV237WZGsLM64Rz+OQe3VWlbZab
pjc7MI0OClHJ7NPGtiZ1yhRqc4tYcrjx+KAN5eKmins/92D1nL+OBWqw6ZZzvYCe
vFzubLoFf397Y9msrK6OR597MpBpFxmnjngfwNyoAUHg5J4MJMF01RPPtsZN/g6X
NPv+cAQqm1cXnPaVHQBNpTJFZofuyaXUz53lXZ/4VzJJAgMBAAGjbzBtMB0GA1Ud
DgQWBBQ4krNLn5hq8RO8K8V5y/xkY5FbtDAfBgNVHSMEGDAWgBQ4krNLn5hq8RO8
K8V5y/xkY5FbtDAPBgNVHRMBAf8EBTADAQH/MBoGA1UdEQQTMBGCCWxvY2FsaG9z
dIcEfwAAATANBgkqhkiG9w0BAQsFAAOCAQEAD7nNNpfZvtEFXvomYfPqqPXLrYi+
h4xIC/r+H0ifz7/BggywohOHfOIKvG9d3v7kkMPrgYFwfDzBMnAr1wV3dO5hy98p
ILKo/P91SkaAqNC/jdIkl5y8w87AJSRhPYSf1zRiyfEv74ph1ZAyFcjhm440NVDr
ADKxFRTONq59imdKfPRVEcbjALyHf5/XMIigNw7M8hNr4HGasudrmNk7jH+HY4tw
86JgWBr+1eE8PD0+qlQZcw+RDu/xp7MoT6wOygtdxsP9xHJL+ZaYWenRIjt/zvYJ
AAU6iyGHI21Ho2ZOPRfhiscHTLcVXxboj6rVg1qpBcPnRw8CELuYuhY8pw==
-----END CERTIFICATE-----
"""
"""A key and its certificate for localhost and 127.0.0.1, made for these tests alone."""


@contextmanager
def tls_server() -> Iterator[str]:
    """The address of a server that ends each connection after the handshake."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "server.pem"
        file.write_text(PEM)
        context.load_cert_chain(file)
    listener = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=_serve, args=(listener, context), daemon=True).start()
    yield f"https://127.0.0.1:{listener.getsockname()[1]}"
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


def _serve(listener: socket.socket, context: ssl.SSLContext) -> None:
    with suppress(OSError):
        while True:
            connection, _ = listener.accept()
            with suppress(OSError), context.wrap_socket(connection, server_side=True):
                pass
