# Makes an environment in a volume: its few links and files, then what uv installs. Prints how large everything is.
#
# Usage: install.py PLAN, where PLAN is JSON: {"root", "folders", "links", "config", "install", "packages", "figures"}.
import json, os, shutil, subprocess, sys

plan = json.loads(sys.argv[1])
root = plan["root"]


def size(folder):
    total = 0
    for at, _, files in os.walk(folder):
        for name in files:
            total += os.lstat(os.path.join(at, name)).st_blocks * 512
    return total


def is_customiser(name):
    return name.split(".")[0] in ("sitecustomize", "usercustomize")


def holds_customiser(place):
    try:
        return any(is_customiser(name) for name in os.listdir(place))
    except (OSError, ValueError):
        # An archive of modules, which is not looked into.
        return os.path.exists(place)


def runs_code(packages, name):
    """Whether an interpreter runs this at its start."""
    if is_customiser(name) or name.endswith(".start"):
        return True
    if not name.endswith(".pth"):
        return False
    with open(os.path.join(packages, name), "rb") as file:
        lines = file.read().decode("utf-8-sig", "replace").splitlines()
    for line in lines:
        place = line.rstrip()
        if line.startswith(("import ", "import\t")):
            return True
        if place and not place.startswith("#") and holds_customiser(os.path.join(packages, place)):
            return True
    return False


for folder in plan["folders"]:
    os.makedirs(os.path.join(root, folder), exist_ok=True)
for name, target in plan["links"].items():
    os.symlink(target, os.path.join(root, name))
with open(os.path.join(root, "pyvenv.cfg"), "w") as file:
    file.write(plan["config"])
code = subprocess.run(plan["install"]).returncode if plan["install"] else 0
if os.path.exists(os.path.join(root, ".lock")):
    os.remove(os.path.join(root, ".lock"))
if code == 0:
    packages = os.path.join(root, plan["folders"][-1])
    if os.path.isdir(os.path.join(packages, "matplotlib")):
        source, module = plan["figures"]
        shutil.copyfile(source, os.path.join(packages, module + ".py"))
    names = os.listdir(packages)
    told = {
        "size": size(root),
        "packages": size(plan["packages"]),
        "runs_code": any(runs_code(packages, name) for name in names),
        "modules": [name.split(".")[0] for name in names if "." not in name or name.endswith((".py", ".so"))],
    }
    json.dump(told, sys.stdout)
sys.exit(code)
