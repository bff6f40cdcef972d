//! `image`: the image of the Docker backend, made by the user's own engine.

use std::io::Write;
use std::process::ExitCode;

use super::fail;
use crate::cli::ImageCommand;
use crate::sandbox::docker::client::Client;
use crate::sandbox::docker::engine::{self, Engine};
use crate::sandbox::docker::image::{DOCKERFILE, Source, default_name, make};
use crate::settings::Settings;

/// Carries out one of the commands.
pub async fn image(settings: Settings, command: ImageCommand) -> ExitCode {
    match command {
        ImageCommand::Dockerfile => match std::io::stdout().write_all(DOCKERFILE.as_bytes()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        },
        ImageCommand::Build(args) => {
            let name = settings.docker_image.unwrap_or_else(default_name);
            let pythons = args.pythons.iter().map(ToString::to_string).collect();
            build(&name, pythons).await
        }
    }
}

async fn build(name: &str, pythons: Vec<String>) -> ExitCode {
    let Some(client) = Client::find() else { return refuse(&engine::not_installed()) };
    if let Err(refusal) = Engine::ask(&client).await {
        return refuse(&refusal);
    }
    let progress = |line: &str| eprintln!("{line}");
    match make(&client, name, &Source::Dockerfile { pythons }, &progress).await {
        Ok(()) => {
            eprintln!("the image {name} is ready");
            ExitCode::SUCCESS
        }
        Err(error) => fail(&format!(
            "the image {name} could not be made: {error}. It needs the network; behind a proxy, tell it to the engine. \
             `image dockerfile` prints what it is made from, to change or to build elsewhere"
        )),
    }
}

fn refuse(refusal: &crate::sandbox::facts::Refusal) -> ExitCode {
    fail(&format!("{}. {}", refusal.reason, refusal.remedy))
}
