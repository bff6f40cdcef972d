//! Environments for a backend whose sandboxes see nothing of the host's file system: its own interpreters and uv, and
//! volumes in the place of folders.
//!
//! The way of a request is the same as elsewhere (`service`); here is what differs: `programs` asks what there is,
//! `build` resolves and installs into a volume, `store` keeps volumes. The environment always lies at the same path
//! inside, so that a volume can be made under one name and used under it.

mod build;
mod programs;
mod store;

use std::sync::Arc;

use super::Environment;
use super::build::{Builder, Resolution};
use super::bytecode;
use super::failure::EnvironmentError;
use super::interpreters::{Choice, Interpreter, Wanted, choose};
use super::progress::Reporter;
use super::python::PythonVersion;
use super::request::environment_key;
use super::service::{Environments, Resolved, now};
use super::store::Record;
use super::uv::Uv;
use crate::sandbox::spec::{Access, Mount, MountSource};
use crate::sandbox::volumes::{ENVIRONMENT, Keep, Making, PACKAGES, Programs, Volumes};
pub(super) use programs::Known;
use store::VolumeRecord;
pub(super) use store::VolumeStore;

fn volume_mount(name: &str, target: &str, access: Access) -> Mount {
    Mount { source: MountSource::Volume(name.to_owned()), target: target.into(), access }
}

/// The volume of the package cache; written by uv alone.
pub(super) fn packages(volumes: &dyn Volumes) -> Mount {
    volume_mount(&volumes.name("packages"), PACKAGES, Access::ReadWrite)
}

impl Environments {
    /// The backend's volumes, where it cannot show the host's folders.
    pub(super) fn volumes(&self) -> Option<&dyn Volumes> {
        self.0.runner.sandbox.volumes()
    }

    fn volume_store(&self) -> VolumeStore {
        VolumeStore::new(self.0.data.clone(), self.0.options.cache_size)
    }

    /// The interpreter: one of those that the backend has. None is installed: its set of programs is closed.
    pub(super) async fn select_inside(
        &self,
        volumes: &dyn Volumes,
        wanted: &Wanted,
        reporter: &Reporter,
    ) -> Result<(Interpreter, Option<String>), EnvironmentError> {
        reporter.phase("waiting for the sandbox's image", 0, 0);
        let found = self.found(volumes, &|what| reporter.phase(what, 0, 0)).await?;
        reporter.phase("looking for an interpreter", 0, 0);
        let wish = match choose(wanted, &found.interpreters)? {
            Choice::Take(interpreter, note) => return Ok((interpreter, note)),
            Choice::InstallOr(_, other) => {
                let default = PythonVersion::DEFAULT;
                let note = format!("Python {} is used: the image has no {default}", other.version);
                return Ok((other, Some(note)));
            }
            Choice::Install(wish) => wish,
        };
        let versions: Vec<&str> = found.interpreters.iter().map(|python| python.version.as_str()).collect();
        Err(EnvironmentError::NotInImage {
            wanted: wish,
            available: if versions.is_empty() { "none".to_owned() } else { versions.join(", ") },
        })
    }

    /// The backend's uv.
    pub(super) async fn uv_inside(&self, volumes: &dyn Volumes) -> Result<Uv, EnvironmentError> {
        let found = self.found(volumes, &|_| {}).await?;
        found.uv.clone().ok_or_else(|| EnvironmentError::BadUv {
            path: "the image's /usr/local/bin/uv".to_owned(),
            reason: "it does not answer, or is too old".to_owned(),
        })
    }

    /// A finished environment.
    pub(super) fn open_inside(&self, key: &str) -> Option<Environment> {
        self.volume_store().open(key)
    }

    /// Installs into a new volume where there is none with exactly these files.
    pub(super) async fn install_inside(
        &self,
        volumes: &dyn Volumes,
        builder: &Builder<'_>,
        resolution: Resolution,
    ) -> Result<Resolved, EnvironmentError> {
        let key = environment_key(builder.interpreter, &resolution.lock_file);
        let store = self.volume_store();
        if store.open(&key).is_some() {
            return Ok(Resolved { environment: key, at: now(), notes: resolution.notes });
        }
        let lock = self.0.lock(&key).await?;
        if store.record(&key).is_none() {
            let programs = volumes.programs(&|_| {}).await.map_err(|error| not_ready(&error))?;
            let volume = volumes.name(&format!("{key}-{}", super::data_dir::unique()));
            volumes.create(&volume, Keep::Always).await.map_err(|error| not_ready(&error))?;
            let unfinished = Unfinished { environments: self.clone(), volume: Some(volume.clone()) };
            let built = build::install(builder, volumes, &programs, &resolution, &volume).await?;
            let compiled = resolution.packages == 0;
            let record = Record { interpreter: builder.interpreter.clone(), size: built.size, compiled };
            store
                .publish(&key, &VolumeRecord { volume, contents: built.contents, record })
                .map_err(|error| EnvironmentError::storage("the environment could not be kept", &error))?;
            unfinished.keep();
            store.note_packages(built.packages);
        }
        drop(lock);
        self.compile_later(key.clone());
        Ok(Resolved { environment: key, at: now(), notes: resolution.notes })
    }

    /// Compiles an environment to bytecode. Its volume is written while scripts may read it already: each file
    /// appears whole.
    pub(super) async fn compile_inside(&self, key: &str) -> Result<(), EnvironmentError> {
        let store = self.volume_store();
        let (Some(environment), Some(kept)) = (store.open(key), store.record(key)) else { return Ok(()) };
        if kept.record.compiled {
            return Ok(());
        }
        let mount = volume_mount(&kept.volume, ENVIRONMENT, Access::ReadWrite);
        bytecode::compile(&self.0.runner, &environment.interpreter, mount).await?;
        store.compiled(key).map_err(|error| {
            EnvironmentError::storage("an environment could not be marked as compiled", &error)
        })
    }

    /// Keeps the size bound, and removes volumes that no record names.
    pub(super) async fn evict_inside(&self, volumes: &dyn Volumes) {
        self.volume_store().evict(volumes).await;
    }

    /// Removes what a killed server left with the backend, where that keeps volumes, and keeps the size bound.
    pub async fn remove_left(&self) {
        if let Some(volumes) = self.volumes() {
            self.evict_inside(volumes).await;
        }
    }

    /// Forgets an environment whose files have turned out to be gone, so that it is built again.
    pub(super) async fn forget_inside(&self, volumes: &dyn Volumes, key: &str) -> bool {
        self.volume_store().remove(volumes, key).await
    }
}

/// A volume that is removed again unless it is kept.
struct Unfinished {
    environments: Environments,
    volume: Option<String>,
}

impl Unfinished {
    fn keep(mut self) {
        self.volume = None;
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        let Some(volume) = self.volume.take() else { return };
        let environments = self.environments.clone();
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                if let Some(volumes) = environments.volumes() {
                    volumes.remove(&volume).await;
                }
            });
        }
    }
}

fn not_ready(error: &crate::sandbox::StartError) -> EnvironmentError {
    EnvironmentError::NotReady(error.to_string())
}

/// What `programs` found, shared by all requests.
type Found = Arc<programs::Found>;

impl Environments {
    async fn found(&self, volumes: &dyn Volumes, progress: Making<'_>) -> Result<Found, EnvironmentError> {
        let programs: Programs = volumes.programs(progress).await.map_err(|error| not_ready(&error))?;
        self.0.inside.find(&self.0.runner, &self.0.data, programs).await
    }
}
