import json, os, struct
def take(size):
    data = b""
    while len(data) < size:
        part = os.read(3, size - len(data))
        if not part:
            os._exit(0)
        data += part
    return data
setup = json.loads(take(struct.unpack("<I", take(4))[0]))
parts = {}
for name, source in setup.pop("driver").items():
    exec(compile(source, "<driver %s>" % name, "exec"), parts.setdefault(name, {"__name__": "driver_" + name}))
def work(*given):
    parts["worker"]["main"](*given, parts["rich"]["Rich"])
parts["supervisor"]["Supervisor"](setup, work, parts["files"]["Files"]).run()
