# What ordinary Python needs from the kernel. Each function is a check; its name is printed when it passes.
# The argument names the checks to leave out, joined by commas.
import asyncio, ctypes, ctypes.util, errno, fcntl, mmap, multiprocessing, os, pty, resource, select, shutil, signal
import socket, sqlite3, ssl, stat, subprocess, sys, tempfile, termios, threading, time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import shared_memory

def refused(number, act):
    try:
        act()
    except OSError as error:
        assert error.errno == number, error
    else:
        raise AssertionError("not refused")

def threads():
    with ThreadPoolExecutor(16) as pool:
        assert sum(pool.map(abs, range(-50, 50))) == 2500

def fork():
    pid = os.fork()
    if pid == 0:
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7

def subprocesses():
    assert subprocess.run(["echo", "x"], capture_output=True).stdout == b"x\n"
    assert subprocess.run("exit 3", shell=True).returncode == 3
    done = subprocess.run([sys.executable, "-c", "import os; print(os.getpgid(0) == os.getpid())"],
                          start_new_session=True, capture_output=True)
    assert done.stdout == b"True\n", done

def pool(method):
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context(method)) as workers:
        assert list(workers.map(abs, [-1, 2])) == [1, 2]

def pool_fork(): pool("fork")
def pool_spawn(): pool("spawn")
def pool_forkserver(): pool("forkserver")

def manager():
    with multiprocessing.Manager() as server:
        shared = server.dict()
        shared["a"] = 1
        assert dict(shared) == {"a": 1}

def memory():
    block = shared_memory.SharedMemory(create=True, size=4096)
    block.buf[0] = 1
    block.close()
    block.unlink()
    area = mmap.mmap(-1, 1 << 20)
    area.madvise(mmap.MADV_DONTNEED)
    area.resize(1 << 21)
    rwx = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    rwx.close()

def sealed_memfd():
    try:
        os.close(os.memfd_create("sealed", os.MFD_CLOEXEC | 8))
    except OSError as error:
        assert error.errno == errno.EINVAL, error      # a kernel before the seal
    os.close(os.memfd_create("plain"))
    refused(errno.EPERM, lambda: os.memfd_create("executable", 16))

def asyncio_subprocesses():
    async def main():
        child = await asyncio.create_subprocess_exec("echo", "x", stdout=subprocess.PIPE)
        assert (await child.communicate())[0] == b"x\n"
    asyncio.run(main())

def pidfds():
    pid = os.fork()
    if pid == 0:
        time.sleep(30)
    fd = os.pidfd_open(pid)
    signal.pidfd_send_signal(fd, signal.SIGTERM)
    assert os.waitid(os.P_PIDFD, fd, os.WEXITED).si_status == signal.SIGTERM

def database():
    with tempfile.TemporaryDirectory() as folder:
        data = sqlite3.connect(os.path.join(folder, "x.db"))
        assert data.execute("pragma journal_mode=wal").fetchone() == ("wal",)
        data.execute("create table t (a)")
        data.commit()
        data.close()

def tls():
    ssl.create_default_context()

def callbacks():
    order = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))
    numbers = (ctypes.c_int * 3)(3, 1, 2)
    ctypes.CDLL(None).qsort(numbers, 3, 4, order(lambda a, b: a[0] - b[0]))
    assert list(numbers) == [1, 2, 3]

def signals():
    hits = []
    signal.signal(signal.SIGALRM, lambda *_: hits.append(1))
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    signal.pause()
    assert hits

def scheduling():
    os.sched_setaffinity(0, os.sched_getaffinity(0))
    os.nice(0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.getloadavg()

def files():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "a")
        with open(path, "w") as file:
            file.write("x" * 1000)
            fcntl.flock(file, fcntl.LOCK_EX)
            os.fsync(file.fileno())
            os.ftruncate(file.fileno(), 10)
            os.posix_fallocate(file.fileno(), 0, 4096)
        shutil.copy2(path, path + "2")
        os.link(path, path + "3")
        os.symlink(path, path + "4")
        os.mkfifo(path + "5")
        os.rename(path + "2", path + "6")
        os.sync()
        assert len(os.listdir(folder)) == 5
    refused(errno.EPERM, lambda: os.mknod("/tmp/device", stat.S_IFCHR | 0o600, os.makedev(1, 3)))

def made_executable():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "tool")
        with open(path, "w") as file:
            file.write("#!/bin/sh\necho ran\n")
        os.chmod(path, 0o755)
        assert subprocess.run([path], capture_output=True).stdout == b"ran\n"

def terminals():
    main, side = pty.openpty()
    assert os.isatty(side)
    termios.tcsetwinsize(side, (20, 30)) if hasattr(termios, "tcsetwinsize") else None
    refused(errno.ENOTTY, lambda: fcntl.ioctl(side, 0x5412, b"x"))
    os.close(main)
    os.close(side)

def events():
    poll = select.epoll()
    read, write = os.pipe()
    poll.register(read, select.EPOLLIN)
    os.write(write, b"x")
    assert poll.poll(1)
    a, b = socket.socketpair()
    a.send(b"x")
    assert b.recv(1) == b"x"

def local_sockets():
    with tempfile.TemporaryDirectory() as folder:
        server = socket.socket(socket.AF_UNIX)
        server.bind(os.path.join(folder, "s"))
        server.listen()
        client = socket.socket(socket.AF_UNIX)
        client.connect(server.getsockname())

def internet_sockets():
    server = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(server.getsockname())
    client.close()
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).close()
    refused(errno.EPERM, lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
    refused(errno.EPROTONOSUPPORT, lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262))
    refused(errno.EAFNOSUPPORT, lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))

def no_namespaces():
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.unshare(0x10000000) == -1 and ctypes.get_errno() == errno.EPERM

if __name__ == "__main__":
    skipped = sys.argv[1].split(",")
    own = [(n, f) for n, f in list(globals().items()) if type(f) is type(fork) and f.__module__ == "__main__"]
    for name, check in own:
        if name not in ("refused", "pool", *skipped):
            check()
            print(name, flush=True)
    print("all passed")
