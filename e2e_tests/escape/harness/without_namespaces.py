# Starts a program behind a filter that refuses what Docker's default profile refuses to a container without rights:
# namespaces, mounts, and clone3 altogether.
import ctypes, platform, struct, sys, os

X86 = platform.machine() == "x86_64"
NUMBERS = {"clone": (56, 220), "unshare": (272, 97), "setns": (308, 268), "mount": (165, 40), "umount2": (166, 39),
           "pivot_root": (155, 41), "clone3": (435, 435), "open_tree": (428, 428), "move_mount": (429, 429),
           "fsopen": (430, 430), "mount_setattr": (442, 442)}
number = {name: pair[0 if X86 else 1] for name, pair in NUMBERS.items()}
LOAD, EQUAL, SET, RETURN = 0x20, 0x15, 0x45, 0x06
REFUSED, MISSING, ALLOWED = 0x00050001, 0x00050026, 0x7FFF0000
program = [(LOAD, 0, 0, 0), (EQUAL, 0, 1, number["clone3"]), (RETURN, 0, 0, MISSING)]
for name in NUMBERS.keys() - {"clone", "clone3"}:
    program += [(EQUAL, 0, 1, number[name]), (RETURN, 0, 0, REFUSED)]
program += [(EQUAL, 0, 3, number["clone"]), (LOAD, 0, 0, 16), (SET, 0, 1, 0x7E020080), (RETURN, 0, 0, REFUSED), (RETURN, 0, 0, ALLOWED)]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *one) for one in program))


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_void_p)]


libc = ctypes.CDLL(None, use_errno=True)
libc.prctl(38, 1, 0, 0, 0)
if libc.prctl(22, 2, ctypes.byref(Program(len(program), ctypes.addressof(code))), 0, 0) != 0:
    sys.exit(f"the filter could not be installed: {os.strerror(ctypes.get_errno())}")
os.execv(sys.argv[1], sys.argv[1:])
