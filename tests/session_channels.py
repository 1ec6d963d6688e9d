"""What the connection of a session carries beside its shell: files, forwards, X11 and the client's agent. Parts of the table of
sessions, for session_matrix.py, whose Matrix each is given."""
import filecmp
import os
import socket
import struct
import subprocess
import threading
import urllib.request

from session_table import WORKS
from world import IMAGES, VOLUME_OS, dies_with_parent, free_port


def transfers(m):
    source, back = m.world.path("payload"), m.world.path("payload.back")
    with open(source, "wb") as file:
        file.write(os.urandom(1 << 20))
    for name, flags in (("scp over sftp", []), ("scp over the old protocol", ["-O"])):
        good = True
        for step in ((source, "shared:payload"), ("shared:payload", back)):
            done = subprocess.run(["scp", "-q", "-F", m.config, *flags, *step], stdin=subprocess.DEVNULL, timeout=300, check=False, capture_output=True)
            good = good and done.returncode == 0
        m.row(name, WORKS, "", good and filecmp.cmp(source, back, shallow=False), done)
        os.unlink(back)
    done = subprocess.run(["sftp", "-q", "-F", m.config, "-b", "-", "shared"], input="cd /etc\nls os-release\npwd\n", capture_output=True, text=True,
                          timeout=300, check=False)
    m.row("sftp", WORKS, m.own("the base's server where the volume has none", "as the volume's sshd_config has it"), done.returncode == 0 and "os-release" in done.stdout, done)
    done = subprocess.run(["rsync", "-a", "-e", f"ssh -F {m.config}", source, "shared:synced"], capture_output=True, text=True, timeout=300, check=False)
    m.row("rsync", WORKS, "where the volume has it", done.returncode == 0 and m.ssh("cmp payload synced").returncode == 0, done)


def answer_once(listener, text):
    connection, _ = listener.accept()
    with connection:
        connection.sendall(text)


def socks_get(port, target_port):
    """One HTTP request through a SOCKS5 proxy on loopback."""
    with socket.create_connection(("127.0.0.1", port), timeout=300) as proxy:
        proxy.sendall(b"\x05\x01\x00")
        proxy.recv(2)
        proxy.sendall(b"\x05\x01\x00\x01" + socket.inet_aton("127.0.0.1") + struct.pack(">H", target_port))
        proxy.recv(10)
        proxy.sendall(b"GET /os-release HTTP/1.0\r\n\r\n")
        return b"".join(iter(lambda: proxy.recv(4096), b"")).decode()


def forwards(m):
    m.ssh("cd /etc; setsid python3 -m http.server 8123 --bind 127.0.0.1 >/tmp/web.log 2>&1 </dev/null & "
          "python3 -c \"import socket,time\nwhile socket.socket().connect_ex(('127.0.0.1',8123)): time.sleep(.1)\"")
    local, dynamic = free_port(), free_port()
    m.forward("-L", f"{local}:127.0.0.1:8123")
    with urllib.request.urlopen(f"http://127.0.0.1:{local}/os-release", timeout=300) as reply:
        text = reply.read().decode()
    m.row("a web server, reached by a local forward", WORKS, "", VOLUME_OS in text, text)
    m.forward("-D", str(dynamic))
    text = socks_get(dynamic, 8123)
    m.row("a dynamic forward (SOCKS)", WORKS, "", VOLUME_OS in text, text)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=answer_once, args=(listener, b"from the client's side"), daemon=True)
        thread.start()
        port = m.forward("-R", f"0:127.0.0.1:{listener.getsockname()[1]}")
        done = m.ssh(f"python3 -c \"import socket; print(socket.create_connection(('127.0.0.1', {port})).recv(99).decode())\"")
        m.row("a remote forward", WORKS, "", done.stdout == "from the client's side\n", done)
    done = m.ssh("cat /etc/os-release", host="behind")
    m.row("ProxyJump through the node", WORKS, "", VOLUME_OS in done.stdout, done)


def x11(m):
    """A server of a few bytes: what arrives at it is an X client's first message with the real cookie."""
    heard = []

    def listen():
        connection, _ = server.accept()
        with connection:
            heard.append(connection.recv(12))

    display = next(number for number in range(50, 99) if not os.path.exists(f"/tmp/.X11-unix/X{number}"))
    with socket.create_server(("127.0.0.1", 6000 + display)) as server:
        threading.Thread(target=listen, daemon=True).start()
        done = m.ssh("python3 -c \"import os,subprocess,socket,struct\n"
                     "cookie=bytes.fromhex(subprocess.check_output(['xauth','list',os.environ['DISPLAY']],text=True).split()[-1])\n"
                     "s=socket.create_connection(('127.0.0.1',6000+int(os.environ['DISPLAY'].split(':')[1].split('.')[0])))\n"
                     "name=b'MIT-MAGIC-COOKIE-1'\n"
                     "s.sendall(struct.pack('<BxHHHHxx',108,11,0,len(name),len(cookie))+name+b'\\0\\0'+cookie)\ns.recv(1)\"", host="node",
                     options=("-Y",), env={"DISPLAY": f"127.0.0.1:{display}"})
    m.row("X11 forwarding", WORKS, "where the volume has xauth", heard and heard[0][:1] == b"l", (done, heard))


def agent(m):
    path = m.world.path("agent.sock")
    if os.path.exists(path):
        os.unlink(path)
    child = subprocess.Popen(["ssh-agent", "-D", "-a", path], stdout=subprocess.DEVNULL, preexec_fn=dies_with_parent)
    env = {"SSH_AUTH_SOCK": path}
    try:
        while subprocess.run(["ssh-add", "-q", f"{IMAGES}/id_ed25519"], env={**os.environ, **env}, capture_output=True, check=False).returncode != 0:
            if child.poll() is not None:
                break
        # A list of keys is an answer of the agent through the whole way.
        done = m.ssh("python3 -c \"import os,socket,struct\ns=socket.socket(socket.AF_UNIX); s.connect(os.environ['SSH_AUTH_SOCK'])\n"
                     "s.sendall(struct.pack('>IB',1,11)); s.recv(4); print('answer', s.recv(1)[0])\"", host="node", options=("-A",), env=env)
        m.row("agent forwarding", WORKS, "", done.stdout == "answer 12\n", done)
    finally:
        child.terminate()
        child.wait()
