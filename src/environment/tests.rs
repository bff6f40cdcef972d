//! The room as a whole: real uv, real interpreters, packages of our own from an index of our own.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OnceCell;
use tokio::time::Instant;

use super::data_dir::DataDir;
use super::testing::Unconfined;
use super::testing::index::{Behaviour, TestIndex, Wheel};
use super::uv::Finder;
use super::*;
use crate::sandbox::spec::Mount;
use crate::script::Requirement;

/// uv is looked for, and where there is none fetched, once for all tests and all test runs.
async fn uv() -> PathBuf {
    static UV: OnceCell<PathBuf> = OnceCell::const_new();
    let find = || async {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/test-data");
        let env = HostEnv::capture();
        let data = DataDir::open(Some(&folder), &env).expect("a data folder for tests");
        Finder { named: None, env: &env, data: &data, index: &index::IndexSettings::default() }
            .find()
            .await
            .expect("uv is found or fetched with pip")
            .path
    };
    UV.get_or_init(find).await.clone()
}

struct Room {
    place: tempfile::TempDir,
    sandbox: Arc<Unconfined>,
    environments: Environments,
}

impl Room {
    async fn new(index: &TestIndex) -> Self {
        Self::with(&index.url(), Duration::from_hours(1)).await
    }

    async fn with(index: &str, resolve_ttl: Duration) -> Self {
        let place = tempfile::tempdir().expect("a temporary folder");
        let home = place.path().to_str().expect("UTF-8");
        let path = std::env::var("PATH").expect("PATH is set");
        let pyenv = std::env::var("HOME").map(|home| format!("{home}/.pyenv")).unwrap_or_default();
        let env = HostEnv::from_iter([
            ("HOME", home),
            ("PATH", &path),
            ("PYENV_ROOT", &pyenv),
            ("UV_DEFAULT_INDEX", index),
            ("UV_PYTHON_DOWNLOADS", "never"),
        ]);
        let options = Options {
            uv: Some(uv().await),
            resolve_ttl,
            plain_http: PlainHttp::Allowed,
            ..Options::default()
        };
        let sandbox = Arc::new(Unconfined::new());
        let environments = Environments::open(options, env, sandbox.clone()).expect("opened");
        Self { place, sandbox, environments }
    }

    async fn prepare(&self, requirements: &[&str]) -> Result<Environment, EnvironmentError> {
        self.within(requirements, Duration::from_mins(1)).await
    }

    async fn within(&self, requirements: &[&str], limit: Duration) -> Result<Environment, EnvironmentError> {
        let request = request(requirements);
        self.environments.prepare(&request, Instant::now() + limit, Arc::new(|_| {})).await
    }

    fn jobs(&self) -> Vec<PathBuf> {
        let folder = self.place.path().join(".cache/mcp-python-exec-sandbox/jobs");
        std::fs::read_dir(folder).expect("there").map(|entry| entry.expect("read").path()).collect()
    }
}

fn request(requirements: &[&str]) -> EnvironmentRequest {
    let requirements =
        requirements.iter().map(|text| Requirement::parse(text).expect("a requirement")).collect();
    EnvironmentRequest { requirements, ..EnvironmentRequest::default() }
}

/// Runs code with the environment's own Python, as a run would.
fn python(environment: &Environment, program: &str, code: &str) -> String {
    let output = std::process::Command::new(program)
        .args(["-c", code])
        .env_clear()
        .envs(&environment.env)
        .output()
        .expect("started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

#[tokio::test]
async fn without_dependencies_nothing_is_started_and_every_python_is_the_same() {
    let index = TestIndex::start(Behaviour::Open, &[]).await;
    let room = Room::new(&index).await;
    let environment = room.prepare(&[]).await.expect("prepared");
    assert_eq!(room.sandbox.starts(), 0);
    let code = "import sys; print(sys.executable, sys.prefix)";
    let own = python(&environment, environment.python.to_str().expect("UTF-8"), code);
    assert_eq!(own, format!("{} {}", environment.python.display(), environment.root.display()));
    let prefix = "import sys; print(sys.prefix)";
    for name in ["python", "python3"] {
        let program = environment.root.join("bin").join(name);
        assert_eq!(
            python(&environment, program.to_str().expect("UTF-8"), prefix),
            environment.root.to_str().expect("UTF-8")
        );
    }
}

#[tokio::test]
async fn twenty_calls_build_once_and_the_next_starts_nothing() {
    let index = TestIndex::start(
        Behaviour::Open,
        &[Wheel::new("alpha", "1.0").needs("beta"), Wheel::new("beta", "2.0")],
    )
    .await;
    let room = Arc::new(Room::new(&index).await);
    let calls: Vec<_> = (0..20)
        .map(|_| {
            let room = room.clone();
            tokio::spawn(
                async move { room.prepare(&["alpha"]).await.map(|environment| environment.root.clone()) },
            )
        })
        .collect();
    let mut roots = Vec::new();
    for call in calls {
        roots.push(call.await.expect("no panic").expect("prepared"));
    }
    roots.dedup();
    assert_eq!(roots.len(), 1);
    // Resolving and installing; compiling may have begun.
    assert!((2..=3).contains(&room.sandbox.starts()), "{} starts", room.sandbox.starts());

    let environment = room.prepare(&["alpha"]).await.expect("warm");
    assert!(room.sandbox.starts() <= 3);
    let code = "import alpha, beta; print(alpha.VERSION, beta.VERSION)";
    assert_eq!(python(&environment, environment.python.to_str().expect("UTF-8"), code), "1.0 2.0");
    let script = environment.root.join("bin/alpha");
    let output = std::process::Command::new(script).output().expect("the console script runs");
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "alpha 1.0");
    assert!(room.jobs().is_empty(), "{:?}", room.jobs());
}

#[tokio::test]
async fn other_requirements_that_lead_to_an_environment_in_use_share_it() {
    let index = TestIndex::start(Behaviour::Open, &[Wheel::new("alpha", "1.0")]).await;
    let room = Room::new(&index).await;
    let used = room.prepare(&["alpha"]).await.expect("prepared");
    let limit = Duration::from_mins(1);
    let other = room.within(&["alpha>=1.0"], limit).await.expect("it waits for nobody who uses it");
    assert_eq!(used.root, other.root);

    // Removed from outside while it is in use.
    crate::environment::files::remove_tree(&used.root);
    let again = room.within(&["alpha"], limit).await.expect("it is built anew");
    assert!(again.root == used.root && again.root.join("pyvenv.cfg").is_file());
}

#[tokio::test]
async fn what_nobody_waits_for_gives_way() {
    let index =
        TestIndex::start(Behaviour::Open, &[Wheel::new("alpha", "1.0"), Wheel::new("beta", "1.0")]).await;
    let room = Room::new(&index).await;
    let background = EnvironmentRequest { niceness: 19, ..request(&["alpha"]) };
    let deadline = Instant::now() + Duration::from_mins(1);
    room.environments.prepare(&background, deadline, Arc::new(|_| {})).await.expect("prepared");
    assert!(room.sandbox.starts() >= 2 && room.sandbox.urgent() == 0, "{} urgent", room.sandbox.urgent());
    room.prepare(&["beta"]).await.expect("prepared");
    assert!(room.sandbox.urgent() >= 2);
}

#[tokio::test]
async fn another_server_finds_what_was_built() {
    let index = TestIndex::start(Behaviour::Open, &[Wheel::new("alpha", "1.0")]).await;
    let room = Room::new(&index).await;
    let first = room.prepare(&["alpha"]).await.expect("prepared").root.clone();
    let inner = &room.environments.0;
    let sandbox = Arc::new(Unconfined::new());
    let other =
        Environments::open(inner.options.clone(), inner.env.clone(), sandbox.clone()).expect("opened");
    let request = request(&["alpha"]);
    let deadline = Instant::now() + Duration::from_mins(1);
    let second = other.prepare(&request, deadline, Arc::new(|_| {})).await.expect("found");
    assert_eq!((second.root.clone(), sandbox.starts()), (first, 0));
}

#[tokio::test]
async fn impossible_requirements_are_explained() {
    let wheels =
        [Wheel::new("alpha", "1.0").needs("beta<2"), Wheel::new("beta", "1.0"), Wheel::new("beta", "2.0")];
    let index = TestIndex::start(Behaviour::Open, &wheels).await;
    let room = Room::new(&index).await;
    for (requirements, why, words) in [
        (&["missing"][..], Why::NoPackage, &["missing"][..]),
        (&["beta==3"], Why::NoVersion, &["beta==3"]),
        (&["beta<2", "beta>=2"], Why::Conflict, &["beta<2", "beta>=2"]),
        (&["alpha", "beta>=2"], Why::Conflict, &["alpha", "beta<2", "beta>=2"]),
    ] {
        let error = room.prepare(requirements).await.expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::Resolution(why), "{error:?}");
        for word in words {
            assert!(error.to_string().contains(word), "{word} is not in: {error}");
        }
    }
    assert!(room.jobs().is_empty());
}

#[tokio::test]
async fn an_index_that_hangs_is_bounded_by_the_deadline() {
    let index = TestIndex::start(Behaviour::Silent, &[]).await;
    let room = Room::new(&index).await;
    let before = Instant::now();
    let error = room.within(&["alpha"], Duration::from_millis(1500)).await.expect_err("too late");
    assert!(before.elapsed() < Duration::from_secs(3));
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert!(error.to_string().contains("resolving"), "{error}");
}

#[tokio::test]
async fn an_index_that_is_not_there_is_a_matter_of_the_network() {
    let room = Room::with("http://127.0.0.1:9/simple", Duration::from_hours(1)).await;
    let error = room.prepare(&["alpha"]).await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Network, "{error:?}");
}

#[tokio::test]
async fn credentials_reach_the_index_and_nobody_else() {
    let index = TestIndex::start(Behaviour::Password("me", "s3cret"), &[Wheel::new("alpha", "1.0")]).await;
    let url = index.url().replace("http://", "http://me:s3cret@");
    let room = Room::with(&url, Duration::from_hours(1)).await;
    let environment = room.prepare(&["alpha"]).await.expect("prepared");
    assert!(!format!("{environment:?}").contains("s3cret"));
    let found = std::process::Command::new("grep")
        .args(["-rl", "s3cret"])
        .arg(room.place.path())
        .output()
        .expect("grep runs");
    assert!(found.stdout.is_empty(), "{}", String::from_utf8_lossy(&found.stdout));

    let stranger = Room::new(&index).await;
    assert!(stranger.prepare(&["alpha"]).await.is_err(), "the index asks for a password");
}

#[tokio::test]
async fn compiling_runs_no_code_of_a_package() {
    let place = tempfile::tempdir().expect("a temporary folder");
    let marker = place.path().join("ran");
    let code = format!("import os; open({:?}, 'w')\n", marker.to_str().expect("UTF-8"));
    let wheel = Wheel::new("alpha", "1.0").file("alpha_evil.pth", &code).file("sitecustomize.py", &code);
    let index = TestIndex::start(Behaviour::Open, &[wheel]).await;
    let room = Room::new(&index).await;
    let environment = room.prepare(&["alpha"]).await.expect("prepared");
    let mount = Mount::read_write(&environment.root);
    bytecode::compile(&room.environments.0.runner, &environment.interpreter, mount).await.expect("compiled");
    let packages =
        environment.root.join("lib").join(environment.interpreter.library_name()).join("site-packages");
    assert!(packages.join("__pycache__").is_dir(), "nothing was compiled");
    assert!(!marker.exists(), "code of a package ran while it was prepared");
    python(&environment, environment.python.to_str().expect("UTF-8"), "pass");
    assert!(marker.exists(), "the file would not have run in any case");
}

#[tokio::test]
async fn a_requirement_for_the_distant_future_is_refused_quickly() {
    let index = TestIndex::start(Behaviour::Open, &[]).await;
    let room = Room::new(&index).await;
    let request = EnvironmentRequest {
        requires_python: Some(">=3.99".parse().expect("a range")),
        ..EnvironmentRequest::default()
    };
    let deadline = Instant::now() + Duration::from_secs(10);
    let error = room.environments.prepare(&request, deadline, Arc::new(|_| {})).await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Interpreter);
    assert!(error.to_string().contains(">=3.99") && error.to_string().contains("Available: 3."), "{error}");
}
