//! Whether the image is there: at once, after it was made in the background, or not, and why.

use std::sync::Arc;

use tokio::sync::watch;

use super::client::Client;
use super::engine::{Engine, Image};
use super::image::{self, Source};
use crate::sandbox::StartError;
use crate::sandbox::facts::Refusal;
use crate::sandbox::volumes::Making;

/// The image as it becomes ready. The work in the background ends with this.
pub struct Ready {
    client: Client,
    engine: Engine,
    name: String,
    state: Arc<watch::Sender<State>>,
    work: Option<tokio::task::AbortHandle>,
}

#[derive(Clone, Debug)]
enum State {
    /// With what the engine said last.
    Making(String),
    There(Image),
    Failed(String),
}

/// The engine does not have the image and none is made.
pub fn no_image(name: &str) -> Refusal {
    Refusal {
        reason: format!("the container engine has no image {name}"),
        remedy: "Make it with `mcp-python-exec-sandbox image build` while the network is on, or name another with \
                 --docker-image"
            .to_owned(),
    }
}

impl Ready {
    /// Starts making the image where it is not there.
    pub fn new(client: &Client, engine: &Engine, name: &str, source: Source, found: Option<Image>) -> Self {
        let making = found.is_none();
        let state =
            Arc::new(watch::Sender::new(found.map_or_else(|| State::Making(String::new()), State::There)));
        let work = making.then(|| {
            let (client, engine, name) = (client.clone(), engine.clone(), name.to_owned());
            let tell = Arc::clone(&state);
            tokio::spawn(async move {
                let made = make(&client, &engine, &name, &source, &tell).await;
                tell.send_replace(made);
            })
            .abort_handle()
        });
        Self { client: client.clone(), engine: engine.clone(), name: name.to_owned(), state, work }
    }

    /// Waits for the image, and tells how far it is. After a failure the engine is asked again: somebody may have made it
    /// by hand.
    pub async fn image(&self, progress: Making<'_>) -> Result<Image, StartError> {
        let mut state = self.state.subscribe();
        let failed = loop {
            let now = state.borrow_and_update().clone();
            match now {
                State::There(image) => return Ok(image),
                State::Failed(reason) => break reason,
                State::Making(line) => progress(&in_words(&line)),
            }
            if state.changed().await.is_err() {
                break "making it broke off".to_owned();
            }
        };
        if let Ok(Some(image)) = self.engine.image(&self.client, &self.name).await {
            self.state.send_replace(State::There(image.clone()));
            return Ok(image);
        }
        let Refusal { reason, remedy } = no_image(&self.name);
        Err(StartError::Unavailable {
            reason: format!("{reason}, and it could not be made: {failed}"),
            remedy,
        })
    }

    /// Whether this is the image that a container is made of now.
    pub fn is(&self, id: &str) -> bool {
        matches!(&*self.state.borrow(), State::There(image) if image.id == id)
    }

    /// The better explanation for a container that was not started: the engine or the image has gone meanwhile.
    pub async fn explain(&self, used: &Image, error: StartError) -> StartError {
        let refusal = match Engine::ask(&self.client).await {
            Err(refusal) => refusal,
            Ok(engine) => match engine.image(&self.client, &self.name).await {
                Ok(Some(image)) if image == *used => return error,
                Ok(Some(image)) => {
                    self.state.send_replace(State::There(image));
                    Refusal {
                        reason: format!("the image {} was replaced by another one meanwhile", self.name),
                        remedy: "Try again: the new one is used from now on".to_owned(),
                    }
                }
                Ok(None) => {
                    self.state.send_replace(State::Failed("it was removed meanwhile".to_owned()));
                    no_image(&self.name)
                }
                Err(refusal) => refusal,
            },
        };
        StartError::Unavailable { reason: refusal.reason, remedy: refusal.remedy }
    }
}

impl Drop for Ready {
    fn drop(&mut self) {
        if let Some(work) = &self.work {
            work.abort();
        }
    }
}

/// Characters of the engine's own words.
const SHOWN: usize = 80;

fn in_words(line: &str) -> String {
    if line.is_empty() {
        return "making the container image, once".to_owned();
    }
    format!("making the container image, once: {}", line.chars().take(SHOWN).collect::<String>())
}

async fn make(
    client: &Client,
    engine: &Engine,
    name: &str,
    source: &Source,
    tell: &watch::Sender<State>,
) -> State {
    tracing::warn!("the image {name} is not there yet: it is made in the background, once");
    let progress = |line: &str| {
        tracing::info!("image: {line}");
        tell.send_replace(State::Making(line.to_owned()));
    };
    if let Err(error) = image::make(client, name, source, &progress).await {
        tracing::warn!("the image {name} could not be made: {error}");
        return State::Failed(error.to_string());
    }
    match engine.image(client, name).await {
        Ok(Some(image)) => {
            tracing::warn!("the image {name} is ready");
            State::There(image)
        }
        Ok(None) => State::Failed("the engine does not have it after making it".to_owned()),
        Err(refusal) => State::Failed(refusal.reason),
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::sync::Mutex;

    use super::*;
    use crate::seccomp::Arch;

    /// A client that knows no image, and makes one as the script says.
    fn client(folder: &std::path::Path, build: &str) -> Client {
        let program = folder.join("docker");
        let script = format!(
            "#!/bin/sh\ncase $1 in\nimage) [ -e {0}/made ] && echo '{{\"Id\":\"sha256:07\",\"Architecture\":\"amd64\",\
             \"Os\":\"linux\"}}' ;;\nbuild) cat >/dev/null\n{build} ;;\nesac\n",
            folder.display()
        );
        std::fs::write(&program, script).expect("written");
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("set");
        Client::at(program)
    }

    fn ready(client: &Client) -> Ready {
        let engine = Engine { id: "e".into(), version: "27".into(), arch: Arch::X86_64 };
        Ready::new(client, &engine, "name:1", Source::Dockerfile { pythons: Vec::new() }, None)
    }

    #[tokio::test]
    async fn whoever_waits_hears_how_far_the_image_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let (go, made) = (folder.path().join("go"), folder.path().join("made"));
        let build = format!(
            "echo 'Step 3/9 : RUN something'\nwhile ! [ -e {} ]; do sleep 0.01; done\ntouch {}",
            go.display(),
            made.display()
        );
        let ready = ready(&client(folder.path(), &build));
        let heard = Mutex::new(Vec::new());
        let hear = |what: &str| {
            if what.contains("Step 3/9") {
                std::fs::write(&go, "").expect("written");
            }
            heard.lock().expect("alone").push(what.to_owned());
        };
        let image = ready.image(&hear).await.expect("it is made");
        assert!(ready.is(&image.id) && image.id == "07");
        let heard = heard.into_inner().expect("alone");
        assert_eq!(
            heard.last().map(String::as_str),
            Some("making the container image, once: Step 3/9 : RUN something")
        );
    }

    #[tokio::test]
    async fn an_image_that_cannot_be_made_says_how_to_make_it_and_is_looked_for_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let ready = ready(&client(folder.path(), "echo 'no route to the registry' >&2; exit 1"));
        let error = ready.image(&|_| {}).await.expect_err("it cannot be made").to_string();
        assert!(error.contains("no route to the registry") && error.contains("image build"), "{error}");
        // Somebody has made it by hand.
        std::fs::write(folder.path().join("made"), "").expect("written");
        assert_eq!(ready.image(&|_| {}).await.expect("it is there").id, "07");
    }
}
