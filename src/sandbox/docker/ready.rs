//! Whether the image is there: at once, after it was made in the background, or not, and why.

use std::sync::Arc;

use tokio::sync::watch;

use super::client::Client;
use super::engine::{Engine, Image};
use super::image::{self, Source};
use crate::sandbox::StartError;
use crate::sandbox::facts::Refusal;

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
    Making,
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
        let state = Arc::new(watch::Sender::new(found.map_or(State::Making, State::There)));
        let work = making.then(|| {
            let (client, engine, name) = (client.clone(), engine.clone(), name.to_owned());
            let tell = Arc::clone(&state);
            tokio::spawn(async move {
                let made = make(&client, &engine, &name, &source).await;
                tell.send_replace(made);
            })
            .abort_handle()
        });
        Self { client: client.clone(), engine: engine.clone(), name: name.to_owned(), state, work }
    }

    /// Waits for the image. After a failure the engine is asked again: somebody may have made it by hand.
    pub async fn image(&self) -> Result<Image, StartError> {
        let mut state = self.state.subscribe();
        let settled =
            state.wait_for(|state| !matches!(state, State::Making)).await.map(|state| state.clone());
        let failed = match settled {
            Ok(State::There(image)) => return Ok(image),
            Ok(State::Failed(reason)) => reason,
            Ok(State::Making) | Err(_) => "making it broke off".to_owned(),
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

async fn make(client: &Client, engine: &Engine, name: &str, source: &Source) -> State {
    tracing::warn!("the image {name} is not there yet: it is made in the background, once");
    let progress = |line: &str| tracing::info!("image: {line}");
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
