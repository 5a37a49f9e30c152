# Speaks TLS on a port of its own and hands on to a plain one: terminator.py CERTIFICATE KEY PORT. Prints its port.
import socket
import ssl
import sys
import threading

certificate, key, port = sys.argv[1:]
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(certificate, key)
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)


def pump(source, sink):
    try:
        while data := source.recv(65536):
            sink.sendall(data)
    except OSError:
        pass
    for end in (source, sink):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def serve(client):
    try:
        client = context.wrap_socket(client, server_side=True)
    except OSError:
        return
    plain = socket.create_connection(("127.0.0.1", int(port)))
    threading.Thread(target=pump, args=(client, plain), daemon=True).start()
    pump(plain, client)


while True:
    threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()
