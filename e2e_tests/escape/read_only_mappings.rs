//! A page of a file that is mapped for reading, written in spite of it: by the own process's memory file, by a race
//! with the kernel's copy.

use crate::harness::{Ground, Property, Stage, case};

pub const PROPERTY: Property = Property::probe(
    "read_only_mappings",
    "Pages of files that a script may only read stay as they are",
    r#"
path = os.path.realpath("/bin/true")
with open(path, "rb") as file:
    before = file.read()
    page = mmap.mmap(file.fileno(), 4096, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)

_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
target = os.open(path, os.O_RDONLY)
address = _libc.mmap(None, 4096, 1, 2, target, 0)

def forced():
    with open("/proc/self/mem", "r+b", buffering=0) as memory:
        memory.seek(address)
        memory.write(b"escape")

attempt("/proc/self/mem", forced)

def shared():
    mapped = _libc.mmap(None, 4096, 3, 1, target, 0)
    if mapped == ctypes.c_void_p(-1).value:
        code = ctypes.get_errno()
        raise OSError(code, "mmap")

attempt("shared mapping for writing", shared)

def protected():
    mapped = _libc.mmap(None, 4096, 1, 1, target, 0)
    if _libc.mprotect(ctypes.c_void_p(mapped), 4096, 3) != 0:
        raise OSError(ctypes.get_errno(), "mprotect")

attempt("made writable later", protected)

def through_a_pipe():
    # A file of its own: where the kernel is not mended, nothing else is harmed.
    piped = f"{SCRATCH}/piped-{os.getpid()}"
    with open(piped, "wb") as file:
        file.write(b"x" * 4096)
    source = os.open(piped, os.O_RDONLY)
    os.unlink(piped)
    read, write = os.pipe()
    os.write(write, b"x" * 65536)
    os.read(read, 65536)
    # One byte of the file lies in the pipe; what is written next must not go into the file's page behind it.
    offset = ctypes.c_long(1)
    syscall("splice", source, offset, write, 0, 1, 0)
    os.write(write, b"escape")
    return "unchanged" if os.pread(source, 8192, 0) == b"x" * 4096 else "changed"

attempt("through a pipe", through_a_pipe)

def own():
    with open(f"{SCRATCH}/mapped-{os.getpid()}", "w+b") as file:
        os.unlink(file.name)
        file.write(b"x" * 4096)
        file.flush()
        with mmap.mmap(file.fileno(), 4096) as page:
            page[:6] = b"escape"
        file.seek(0)
        return "changed" if file.read(6) == b"escape" else "unchanged"

attempt("shared mapping of an own file", own)
attempt("swap of the page by advice", lambda: page.madvise(mmap.MADV_DONTNEED) or "unchanged" if open(path, "rb").read() == before else "changed")
"#,
    &[
        // EIO: newer kernels refuse it by themselves.
        case("/proc/self/mem", "ok|EIO", "EROFS|EACCES").namespaces("EROFS|EACCES").landlock("EACCES"),
        case("shared mapping for writing", "EACCES", "EACCES"),
        case("made writable later", "EACCES", "EACCES"),
        // Nothing of this sandbox's refuses it: the kernel is the one that was mended.
        case("through a pipe", "unchanged", "unchanged"),
        case("shared mapping of an own file", "changed", "changed"),
        case("swap of the page by advice", "unchanged", "unchanged"),
    ],
)
.staged(stage)
.known_as(&["CVE-2016-5195", "CVE-2022-0847"]);

fn stage(_: &Ground) -> Result<Stage, String> {
    let before = std::fs::read("/bin/true").map_err(|error| error.to_string())?;
    let mut stage = Stage::default();
    stage.afterwards = Some(Box::new(move || match std::fs::read("/bin/true") {
        Ok(after) if after == before => Ok(()),
        Ok(_) => Err("a file of the system has changed".to_owned()),
        Err(error) => Err(error.to_string()),
    }));
    Ok(stage)
}
