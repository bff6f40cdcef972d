//! A script tries to change what it was given: its packages, their bytecode, start-up files, the cache, the interpreter.

use std::collections::BTreeMap;

use serde_json::json;

use crate::stage::{Index, Stage, describe, differences, finish, has_uv, uv, wheel};

/// Attempts, each a function that raises `OSError` where it is refused. `site` and `root` are the folders to attack.
const ATTEMPTS: &str = r#"
import errno, importlib.util, json, os, shutil, sys

def append(path):
    with open(path, "a") as file:
        file.write("\nVERSION = 'poisoned'\n")

def create(path, text="import os; os.environ['POISONED'] = '1'\n"):
    with open(path, "w") as file:
        file.write(text)

def replaced(path):
    with open(path + ".new", "w") as file:
        file.write("VERSION = 'poisoned'\n")
    os.rename(path + ".new", path)

def opened_up(path):
    os.chmod(path, 0o666)
    append(path)

def hard_link(path, work):
    link = os.path.join(work, "link")
    os.link(path, link)
    os.chmod(link, 0o666)
    append(link)

def bytecode(site):
    folder = os.path.join(site, "__pycache__")
    os.makedirs(folder, exist_ok=True)
    name = f"alpha.{sys.implementation.cache_tag}.pyc"
    with open(os.path.join(folder, name), "wb") as file:
        file.write(b"poison")

def truncated(path):
    os.truncate(path, 0)

def through_descriptor(path):
    held = os.open(path, os.O_RDONLY)
    with open(f"/proc/self/fd/{held}", "a") as file:
        file.write("VERSION = 'poisoned'\n")

def attempts(site, root, work):
    alpha = os.path.join(site, "alpha.py")
    return {
        "append": lambda: append(alpha),
        "replace": lambda: replaced(alpha),
        "chmod": lambda: opened_up(alpha),
        "truncate": lambda: truncated(alpha),
        "descriptor": lambda: through_descriptor(alpha),
        "remove": lambda: os.remove(alpha),
        "hard link": lambda: hard_link(alpha, work),
        "bytecode": lambda: bytecode(site),
        "pth": lambda: create(os.path.join(site, "evil.pth")),
        "sitecustomize": lambda: create(os.path.join(site, "sitecustomize.py")),
        "new package": lambda: os.mkdir(os.path.join(site, "evil")),
        "configuration": lambda: append(os.path.join(root, "pyvenv.cfg")),
        "interpreter link": lambda: (os.remove(os.path.join(root, "bin/python")), create(os.path.join(root, "bin/python"))),
        "move": lambda: os.rename(site, site + ".old"),
        "times": lambda: os.utime(alpha, (0, 0)),
    }

def tried(named):
    done = {}
    for name, attempt in named.items():
        try:
            attempt()
            done[name] = "DONE"
        except OSError as error:
            done[name] = errno.errorcode[error.errno]
    return done
"#;

const ATTACK: &str = r#"
import alpha
site = os.path.dirname(alpha.__file__)
data = os.path.dirname(os.path.dirname(sys.prefix))
outside = {
    "another environment": lambda: os.mkdir(os.path.join(os.path.dirname(sys.prefix), "evil")),
    "record": lambda: create(sys.prefix + ".json"),
    "package cache": lambda: create(os.path.join(data, "packages/native/evil")),
    "resolutions": lambda: create(os.path.join(data, "resolutions/evil.json")),
    "standard library": lambda: create(os.path.join(os.path.dirname(os.__file__), "sitecustomize.py")),
    "library bytecode": lambda: create(importlib.util.cache_from_source(json.__file__)),
    "interpreter": lambda: append(os.path.realpath(sys.executable)),
    "own executable": lambda: append("/proc/self/exe"),
}
print("VERSION=" + alpha.VERSION)
print("TRIED=" + json.dumps(tried(attempts(site, sys.prefix, os.getcwd()))))
print("OUTSIDE=" + json.dumps(tried(outside)))
"#;

/// The same on a copy that belongs to the script: every attempt works.
const CONTROL: &str = r#"
import alpha
done = {}
for name in attempts("", "", ""):
    place = f"/tmp/{name}"
    shutil.copytree(os.path.dirname(alpha.__file__), place + "/site")
    for folder, _, files in os.walk(place):
        os.chmod(folder, 0o755)
        for file in files:
            os.chmod(os.path.join(folder, file), 0o644)
    os.mkdir(place + "/bin")
    create(place + "/bin/python")
    create(place + "/pyvenv.cfg")
    done.update(tried({name: attempts(place + "/site", place, place)[name]}))
print("TRIED=" + json.dumps(done))
"#;

const LOOK: &str = "import alpha, os; print('VERSION=' + alpha.VERSION); print('POISONED=' + os.environ.get('POISONED', 'no'))";

#[test]
fn every_attempt_is_refused_and_nothing_that_is_kept_changes() {
    let index = Index::of(&[wheel("alpha", "1.0")]);
    let stage = Stage::new(&index.at("/simple"));
    stage.warm(&["alpha"]);
    let before = stage.kept();
    assert!(before.len() > 10, "{before:?}");

    let ran = stage.run(&["alpha"], &format!("{ATTEMPTS}{ATTACK}")).succeeded();
    let tried: BTreeMap<String, String> = serde_json::from_str(ran.value("TRIED")).expect("the attempts ran");
    assert_eq!(tried.len(), 15);
    for (name, outcome) in &tried {
        // Refused for the file system, by access rights, by Landlock, or because it is not there at all.
        let refused = ["EROFS", "EACCES", "EPERM", "EXDEV", "ENOENT", "ETXTBSY", "EBUSY"];
        assert!(refused.contains(&outcome.as_str()), "{name}: {outcome}");
    }
    // Where the data folder lies below /tmp, some of these write to the sandbox's own /tmp, which is gone with it.
    let outside: BTreeMap<String, String> = serde_json::from_str(ran.value("OUTSIDE")).expect("they ran");
    assert_eq!(outside.len(), 8);
    for name in ["standard library", "library bytecode", "interpreter", "own executable"] {
        assert_ne!(outside[name], "DONE", "{name}");
    }
    assert_eq!(differences(&before, &stage.kept()), Vec::<std::path::PathBuf>::new());

    let later = stage.run(&["alpha"], LOOK).succeeded();
    assert_eq!((later.value("VERSION"), later.value("POISONED")), ("1.0", "no"));
}

#[test]
fn the_attempts_work_where_nothing_stands_in_their_way() {
    let index = Index::of(&[wheel("alpha", "1.0")]);
    let stage = Stage::new(&index.at("/simple"));
    let ran = stage.run(&["alpha"], &format!("{ATTEMPTS}{CONTROL}")).succeeded();
    let tried: BTreeMap<String, String> = serde_json::from_str(ran.value("TRIED")).expect("the attempts ran");
    assert!(tried.len() == 15 && tried.values().all(|outcome| outcome == "DONE"), "{tried:?}");
}

#[test]
fn the_users_own_uv_sees_nothing_of_it() {
    if !has_uv("the user's own uv") {
        return;
    }
    let index = Index::of(&[wheel("alpha", "1.0")]);
    let stage = Stage::new(&index.at("/simple"));
    let own = || {
        let mut command = std::process::Command::new(uv());
        let args = ["run", "--no-project", "--with", "alpha", "python", "-c", LOOK];
        command.args(args).env_clear().envs(&stage.env).current_dir("/");
        finish(command).succeeded().stdout
    };
    let first = own();
    let cache = stage.home().join(".cache/uv");
    let (mut before, mut after) = (BTreeMap::new(), BTreeMap::new());
    describe(&cache.join("archive-v0"), &mut before);
    stage.run(&["alpha"], &format!("{ATTEMPTS}{ATTACK}")).succeeded();
    describe(&cache.join("archive-v0"), &mut after);
    assert_eq!(differences(&before, &after), Vec::<std::path::PathBuf>::new());
    assert_eq!(own(), first);
}

#[test]
fn what_a_package_brings_for_the_start_of_an_interpreter_runs_in_runs_alone() {
    let marker = "import os; os.environ['STARTED'] = str(os.getppid() == os.getpid())\n";
    let hostile = json!({"name": "hostile", "version": "1", "files": {
        "hostile.py": "", "hostile.pth": marker, "sitecustomize.py": marker}});
    let index = Index::of(&[hostile, wheel("alpha", "1.0")]);
    let stage = Stage::new(&index.at("/simple"));
    stage.warm(&["hostile"]);
    let ran =
        stage.run(&["hostile"], "import os; print('STARTED=' + os.environ.get('STARTED', 'no'))").succeeded();
    assert_eq!(ran.value("STARTED"), "False", "the file does not run at all");
    let other =
        stage.run(&["alpha"], "import os; print('STARTED=' + os.environ.get('STARTED', 'no'))").succeeded();
    assert_eq!(other.value("STARTED"), "no");
}

#[test]
fn names_in_a_wheel_do_not_lead_out_of_the_environment() {
    let text = "x";
    let hostile = json!({"name": "hostile", "version": "1", "files": {
        "hostile.py": "", "../../../../evil-up": text, "../../../../../../../../../../../../tmp/evil-tmp": text,
        "/tmp/evil-absolute": text, "hostile-1.data/data/../../../../evil-data": text,
        "hostile-1.data/scripts/../../../evil-script": text}});
    let index = Index::of(&[hostile, wheel("alpha", "1.0")]);
    let stage = Stage::new(&index.at("/simple"));
    stage.warm(&["alpha"]);
    let before = stage.kept();
    let ran = stage.run(&["hostile"], "print('ran')");
    let strays = |folder: &std::path::Path| {
        let mut found = BTreeMap::new();
        describe(folder, &mut found);
        let is_stray = |path: &&std::path::PathBuf| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("evil"))
        };
        found.keys().filter(is_stray).cloned().collect::<Vec<_>>()
    };
    let mut everything = strays(&stage.data());
    // Below its own environment a package may have what it likes.
    everything.retain(|path| {
        !path.starts_with(stage.data().join("environments"))
            && !path.starts_with(stage.data().join("packages"))
    });
    assert_eq!(everything, Vec::<std::path::PathBuf>::new(), "{ran:?}");
    for name in ["evil-tmp", "evil-absolute"] {
        assert!(!std::path::Path::new("/tmp").join(name).exists(), "{name}: {ran:?}");
    }
    let after = stage.kept();
    let changed: Vec<_> = differences(&before, &after)
        .into_iter()
        .filter(|path| before.contains_key(path) && !path.is_dir())
        .collect();
    assert_eq!(changed, Vec::<std::path::PathBuf>::new());
    let alpha = stage.run(&["alpha"], LOOK).succeeded();
    assert_eq!(alpha.value("VERSION"), "1.0");
}
