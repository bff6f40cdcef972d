//! What ordinary programs do with permissions, times and shared memory, although the filter has to ask about each.

use crate::host::{Caller, Place};

const SCRIPT: &str = r"
import multiprocessing, os, subprocess, sys, tempfile
from multiprocessing import shared_memory

def square(number):
    return number * number

with multiprocessing.get_context('fork').Pool(2) as pool:
    assert pool.map(square, range(4)) == [0, 1, 4, 9]

memory = shared_memory.SharedMemory(create=True, size=100_000)
memory.buf[:3] = b'abc'
same = shared_memory.SharedMemory(name=memory.name)
assert bytes(same.buf[:3]) == b'abc'
same.close(); memory.close(); memory.unlink()
try:
    shared_memory.SharedMemory(name=memory.name)
    sys.exit('it is still there')
except FileNotFoundError:
    pass

with open('tool', 'w') as tool:
    tool.write('#!/bin/sh\necho ran\n')
os.chmod('tool', 0o755)
assert subprocess.check_output(['./tool']) == b'ran\n'
descriptor = os.open('tool', os.O_RDONLY)
os.fchmod(descriptor, 0o640)
os.utime(descriptor, (5, 7))
assert (os.stat('tool').st_mode & 0o7777, os.stat('tool').st_mtime) == (0o640, 7)
os.chmod('/proc/self/fd/%d' % descriptor, 0o6755)
assert os.stat('tool').st_mode & 0o7777 == 0o755
os.utime('tool')
assert os.stat('tool').st_mtime > 1_000_000_000

os.symlink('/etc/passwd', 'link')
os.chmod('link', 0o777)
assert os.stat('/etc/passwd').st_mode & 0o777 != 0o777
for missing in ('nothing', 'tool/x'):
    try:
        os.chmod(missing, 0o600)
        sys.exit('no error for ' + missing)
    except (FileNotFoundError, NotADirectoryError):
        pass
os.chmod(os.path.dirname(os.getcwd()), 0o777)
assert os.stat(os.path.dirname(os.getcwd())).st_mode & 0o777 == 0o700

child = subprocess.Popen(['sleep', '60'], start_new_session=True)
os.killpg(child.pid, 15)
assert child.wait() == -15
left = shared_memory.SharedMemory(create=True, size=1000)
print(os.path.basename(left.name), flush=True)
os._exit(0)
";

#[test]
fn programs_change_their_own_files_and_share_memory() {
    for caller in [Caller::User, Caller::ContainerRoot] {
        let Some(place) = Place::of(caller) else { continue };
        let output = place.run(&[], SCRIPT);
        let (stdout, stderr) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{caller:?}: {stderr}");
        let name = stdout.trim();
        assert!(name.starts_with("psm_"), "{stdout}{stderr}");
        let folders = std::fs::read_dir("/dev/shm").expect("shared memory is there").flatten();
        let left = folders.filter(|entry| entry.path().join(name).exists() || entry.file_name() == name);
        assert_eq!(left.count(), 0, "{caller:?}: {name} is left");
    }
}
