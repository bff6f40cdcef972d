//! The tier is chosen at start, said, and never less than what was required.

use crate::host::{Caller, Place, Refusal};

fn words(output: &std::process::Output) -> (String, String) {
    (String::from_utf8_lossy(&output.stdout).into(), String::from_utf8_lossy(&output.stderr).into())
}

#[test]
fn a_script_runs_confined_and_the_reason_is_said() {
    for caller in [Caller::User, Caller::ContainerRoot] {
        let Some(place) = Place::of(caller) else { continue };
        let output = place.run(
            &["--require-sandbox", "confined"],
            "import os\nprint(os.getuid() != 0, os.getgroups(), os.getcwd() == os.path.dirname(__file__))",
        );
        let (stdout, stderr) = words(&output);
        let groups = kept_groups();
        assert_eq!(stdout, format!("True {groups:?} True\n"), "{caller:?}: {stderr}");
    }
}

/// Root's run gives up every group. An ordinary user cannot: the run keeps what the caller has.
fn kept_groups() -> Vec<u32> {
    if rustix::process::getuid().is_root() {
        return Vec::new();
    }
    rustix::process::getgroups().expect("groups").into_iter().map(rustix::process::Gid::as_raw).collect()
}

#[test]
fn more_than_there_is_is_refused_with_what_to_do() {
    for caller in [Caller::User, Caller::ContainerRoot] {
        let Some(place) = Place::of(caller) else { continue };
        let output = place.run(&["--require-sandbox", "full"], "print('ran')");
        let (stdout, stderr) = words(&output);
        assert_eq!((stdout.as_str(), output.status.code()), ("", Some(125)), "{caller:?}");
        assert!(stderr.contains("--require-sandbox full cannot be met"), "{stderr}");
        assert!(stderr.contains("a system-call filter") && stderr.contains("seccomp=unconfined"), "{stderr}");
    }
}

#[test]
fn the_plan_is_printed_with_the_rules_of_this_tier() {
    let place = Place::of(Caller::User).expect("everybody can be this one");
    let (stdout, stderr) = words(&place.run(&["--explain", "--network", "none"], "pass"));
    let plan: serde_json::Value = serde_json::from_str(&stdout).unwrap_or_else(|_| panic!("{stderr}"));
    assert_eq!(plan["isolation"], serde_json::Value::Null);
    assert_eq!(plan["landlock"]["ports"], "refused");
    let writable = plan["landlock"]["files"]["read_write"].to_string();
    assert!(!writable.contains(place.path().to_str().expect("UTF-8")), "{writable}");
}

#[test]
fn folders_of_the_run_stand_for_those_of_the_sandbox_and_go_with_it() {
    for caller in [Caller::User, Caller::ContainerRoot] {
        let Some(place) = Place::of(caller) else { continue };
        let script = "import os, tempfile\n\
            top = os.path.dirname(os.getcwd())\n\
            for folder in (os.getcwd(), os.environ['HOME'], tempfile.gettempdir()):\n    \
                assert os.path.dirname(folder) == top, folder\n    \
                open(folder + '/file', 'w').write('x')\n    \
                os.makedirs(folder + '/' + '/'.join(['deep'] * 200))\n\
            print(top)";
        let (stdout, stderr) = words(&place.run(&[], script));
        let folder = std::path::Path::new(stdout.trim());
        assert!(folder.is_absolute(), "{caller:?}: {stderr}");
        assert!(!folder.exists(), "{caller:?}: {} is still there", folder.display());
    }
}

#[test]
fn a_covered_process_file_system_still_allows_the_full_tier() {
    let Some(place) = Place::with(Caller::User, Refusal::FreshProc) else { return };
    let script = "import os, subprocess\n\
        print(os.getuid(), sorted(name for name in os.listdir('/proc') if name.isdigit()))\n\
        print(os.readlink('/proc/self/exe') == os.path.realpath(os.sys.executable))\n\
        print([name for name in os.listdir('/') if name.startswith('.')], subprocess.call(['true']))";
    let (stdout, stderr) = words(&place.run(&["--require-sandbox", "full"], script));
    assert_eq!(stdout, "1000 []\nTrue\n[] 0\n", "{stderr}");
}

/// The program under `setpriv`, as root without one of its rights.
fn without(place: &Place, capability: &str, args: &[&str]) -> std::process::Output {
    let inner = place.command_here(args);
    let mut command = std::process::Command::new("setpriv");
    command.args([format!("--bounding-set=-{capability}"), format!("--inh-caps=-{capability}")]);
    command.arg(inner.get_program()).args(inner.get_args());
    command.env("HOME", place.path()).env("PATH", "/usr/bin:/bin").output().expect("setpriv starts")
}

#[test]
fn root_that_cannot_become_another_user_runs_nothing() {
    let Some(place) = Place::of(Caller::ContainerRoot) else { return };
    let file = place.write("script.py", "print(open('/proc/self/uid_map').read())");
    let output = without(&place, "setuid", &["run", file.to_str().expect("UTF-8")]);
    let (stdout, stderr) = words(&output);
    assert_eq!((stdout.as_str(), output.status.code()), ("", Some(125)), "{stderr}");
    assert!(stderr.contains("root lacks CAP_SETUID here") && stderr.contains("--user 1000:1000"), "{stderr}");
    let (stdout, _) = words(&without(&place, "setuid", &["doctor"]));
    assert!(stdout.contains("FAIL sandbox: native: root lacks CAP_SETUID here"), "{stdout}");
}

#[test]
fn root_that_cannot_give_files_away_is_told_to_be_a_user() {
    let Some(place) = Place::of(Caller::ContainerRoot) else { return };
    let (stdout, _) = words(&without(&place, "all", &["doctor"]));
    assert!(stdout.contains("root lacks CAP_CHOWN, CAP_SETGID, CAP_SETUID, CAP_SYS_ADMIN"), "{stdout}");
    assert!(stdout.contains("--user 1000:1000") && !stdout.contains("Please report"), "{stdout}");
}

/// Runs a script as root of a user namespace that the caller makes for it.
fn in_an_own_user_namespace(place: &Place, become_caller: &[&str]) -> std::process::Output {
    let file = place.write("script.py", "print(open('/proc/self/uid_map').read().split())");
    let inner = place.command_here(&["run", file.to_str().expect("UTF-8")]);
    let mut command = std::process::Command::new("setpriv");
    command.args(become_caller).args(["unshare", "--map-root-user"]);
    command.arg(inner.get_program()).args(inner.get_args());
    command.env("HOME", place.path()).env("PATH", "/usr/bin:/bin").output().expect("setpriv starts")
}

#[test]
fn root_of_a_namespace_that_is_the_machine_s_root_outside_runs_nothing() {
    let Some(place) = Place::of(Caller::ContainerRoot) else { return };
    let (stdout, stderr) = words(&in_an_own_user_namespace(&place, &["--no-new-privs"]));
    assert_eq!(stdout, "", "{stderr}");
    assert!(stderr.contains("--user 1000:1000"), "{stderr}");
}

#[test]
fn root_of_a_namespace_that_is_a_user_outside_runs_scripts_as_that_user() {
    let Some(place) = Place::with(Caller::User, Refusal::FreshProc) else { return };
    let user = ["--reuid", "31337", "--regid", "31337", "--clear-groups"];
    let (stdout, stderr) = words(&in_an_own_user_namespace(&place, &user));
    assert_eq!(stdout, "['1000', '0', '1']\n", "{stderr}");
}

/// A container engine as far as looking at it goes: no container can be started.
const ENGINE: &str = "#!/bin/sh\n\
    case \"$1\" in\n\
    info) echo '{\"ID\":\"A\",\"OSType\":\"linux\",\"Architecture\":\"'\"$(uname -m)\"'\",\"ServerVersion\":\"27.1\"}' ;;\n\
    image) echo '{\"Id\":\"sha256:1\",\"Os\":\"linux\",\"Architecture\":\"'\"$(uname -m)\"'\"}' ;;\n\
    *) exit 1 ;;\n\
    esac\n";

/// `doctor` with these flags beside an engine that answers.
fn doctor_beside_an_engine(place: &Place, flags: &[&str]) -> (String, String, Option<i32>) {
    let engine = place.write("docker", ENGINE);
    std::fs::set_permissions(engine, std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .expect("executable");
    let mut command = place.command(&[&["doctor"], flags].concat());
    command.env("PATH", format!("{}:/usr/bin:/bin", place.path().display()));
    let output = command.output().expect("the program starts");
    let (stdout, stderr) = words(&output);
    (stdout, stderr, output.status.code())
}

#[test]
fn where_nothing_of_this_machine_serves_containers_take_its_place_and_the_reason_is_said() {
    let Some(place) = Place::with(Caller::User, Refusal::NamespacesAndLandlock) else { return };
    let (stdout, stderr, _) = doctor_beside_an_engine(&place, &[]);
    let why = "a system-call filter";
    assert!(stdout.contains(&format!("note sandbox: docker, tier docker: {why}")), "{stdout}{stderr}");
    assert!(
        stdout.lines().any(|line| line.contains("tier docker") && line.ends_with("has no Landlock")),
        "{stdout}"
    );
    assert!(
        stdout.contains("     -> Start the container with --security-opt seccomp=unconfined"),
        "{stdout}"
    );
    assert!(stdout.contains("ok   Docker: engine 27.1 for"), "{stdout}");
    assert!(stderr.contains(&format!("the sandbox is docker: {why}")), "{stderr}");

    let (_, stderr, code) = doctor_beside_an_engine(&place, &["--require-sandbox", "confined"]);
    assert_eq!(code, Some(125), "{stderr}");
    assert!(stderr.contains("the docker backend gives docker"), "{stderr}");
}

#[test]
fn what_was_asked_for_or_serves_is_never_replaced() {
    let Some(place) = Place::with(Caller::User, Refusal::NamespacesAndLandlock) else { return };
    let (stdout, _, code) = doctor_beside_an_engine(&place, &["--sandbox-backend", "native"]);
    assert!(stdout.contains("FAIL sandbox: native: a system-call filter"), "{stdout}");
    assert!(stdout.contains("note landlock: absent: the kernel") && code == Some(1), "{stdout}");
    let confined = Place::of(Caller::User).expect("everybody can be this one");
    let (stdout, _, _) = doctor_beside_an_engine(&confined, &[]);
    assert!(stdout.contains("note sandbox: native, tier confined: a system-call filter"), "{stdout}");
}
