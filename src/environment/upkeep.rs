//! What happens in the background: bytecode, fresh resolutions, the size bound. Never in the way of a call, and
//! never a reason for a call to fail.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::runtime::Handle;

use super::bytecode;
use super::failure::EnvironmentError;
use super::interpreters::Interpreter;
use super::job::JobFolder;
use super::lock::{Lock, Sharing};
use super::progress::Reporter;
use super::request::EnvironmentRequest;
use super::service::{Environments, Resolved, now};
use super::{Environment, prune, source};
use crate::sandbox::spec::Mount;

/// By then the run for which an environment was built has opened it.
const HEAD_START: Duration = Duration::from_millis(200);
/// An environment that is always in use is compiled all the same.
const PATIENCE: Duration = Duration::from_mins(1);
/// Lies in the folder of an installed interpreter whose standard library is compiled.
const COMPILED: &str = ".library-compiled";

/// Work in the background; dropped when it is over, however it ends.
struct Done {
    environments: Environments,
    name: Arc<str>,
}

impl Drop for Done {
    fn drop(&mut self) {
        self.environments.0.background.send_if_modified(|names| names.remove(&self.name));
    }
}

impl Environments {
    /// Compiles in the background, once among all servers, and then keeps the size bound. The run for which it was
    /// built goes first: compiling takes as long as the slowest start that it saves, on a processor of its own.
    pub(super) fn compile_later(&self, key: Arc<str>) {
        let environments = self.clone();
        self.in_background(key.clone(), async move {
            environments.compile(&key).await;
            environments.keep_bound().await;
        });
    }

    /// Keeps the size bound in the background.
    pub(super) fn keep_bound_later(&self) {
        let environments = self.clone();
        self.in_background("bound".into(), async move { environments.keep_bound().await });
    }

    async fn keep_bound(&self) {
        let store = self.0.store.clone();
        let _ = tokio::task::spawn_blocking(move || store.evict()).await;
        if let Some(volumes) = self.volumes() {
            self.evict_inside(volumes).await;
        }
    }

    /// Does some work in the background, unless it is being done under this name already.
    fn in_background(&self, name: Arc<str>, work: impl Future<Output = ()> + Send + 'static) {
        let Ok(runtime) = Handle::try_current() else { return };
        if !self.0.background.send_if_modified(|names| names.insert(name.clone())) {
            return;
        }
        let done = Done { environments: self.clone(), name };
        runtime.spawn(async move {
            work.await;
            drop(done);
        });
    }

    /// Waits until nothing is being done in the background any more: everything is compiled, the size bound is kept.
    pub async fn settled(&self) {
        let mut background = self.0.background.subscribe();
        let _ = background.wait_for(HashSet::is_empty).await;
    }

    async fn compile(&self, key: &Arc<str>) {
        let inner = &self.0;
        tokio::time::sleep(HEAD_START).await;
        let _ = tokio::time::timeout(PATIENCE, inner.uses.none(key)).await;
        let Ok(Some(_lock)) = Lock::try_take(&inner.compile_lock(key), Sharing::Exclusive) else { return };
        if self.volumes().is_some() {
            if let Err(error) = self.compile_inside(key).await {
                tracing::warn!(%error, "an environment could not be compiled to bytecode");
            }
            return;
        }
        // Held so that it is not removed meanwhile.
        let Some(environment) = inner.store.open(key) else { return };
        if inner.store.record(key).is_none_or(|record| record.compiled) {
            return;
        }
        let mount = Mount::read_write(&environment.root);
        let done = bytecode::compile(&inner.runner, &environment.interpreter, mount).await;
        match done.map(|()| inner.store.compiled(key)) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "an environment could not be closed after compiling"),
            Err(error) => tracing::warn!(%error, "an environment could not be compiled to bytecode"),
        }
    }

    /// Compiles the standard library of an interpreter that was installed for us: it comes without bytecode. Where that
    /// was broken off, whoever uses it next does it.
    pub(super) fn compile_library_later(&self, interpreter: &Interpreter) {
        let marker = interpreter.prefix.join(COMPILED);
        if !interpreter.stdlib.starts_with(self.0.data.interpreters()) || marker.exists() {
            return;
        }
        let (environments, interpreter) = (self.clone(), interpreter.clone());
        let name = interpreter.prefix.file_name().unwrap_or_default().to_string_lossy().into_owned();
        self.in_background(format!("library-{name}").into(), async move {
            let inner = &environments.0;
            let Ok(Some(_lock)) = Lock::try_take(&inner.compile_lock(&name), Sharing::Exclusive) else {
                return;
            };
            let mount = Mount::read_write(&interpreter.stdlib);
            let compiled = bytecode::compile(&inner.runner, &interpreter, mount).await;
            let storage = |error| EnvironmentError::storage("the marker could not be written", &error);
            if let Err(error) = compiled.and_then(|()| std::fs::write(marker, b"").map_err(storage)) {
                tracing::warn!(%error, "a standard library could not be compiled to bytecode");
            }
        });
    }

    /// Resolves again in the background once the answer is older than the user wants; the old one serves meanwhile.
    pub(super) fn refresh_if_old(
        &self,
        key: &Arc<str>,
        resolved: &Resolved,
        interpreter: &Interpreter,
        request: &EnvironmentRequest,
    ) {
        let age = Duration::from_secs(now().saturating_sub(resolved.at));
        if request.requirements.is_empty() || age < self.0.options.resolve_ttl {
            return;
        }
        // Not before the same time has passed again, however it ends.
        let postponed = Resolved { at: now(), ..resolved.clone() };
        self.remember(key, &postponed);
        let (this, key) = (self.clone(), key.clone());
        let interpreter = interpreter.clone();
        let request = EnvironmentRequest { niceness: bytecode::NICENESS, ..request.clone() };
        self.in_background(format!("refresh-{key}").into(), async move {
            match this.build(&interpreter, &request, &Reporter::default()).await {
                Ok(new) => {
                    this.keep_new(&key, &new);
                    this.remember(&key, &new);
                }
                Err(error) => {
                    tracing::info!(%error, "resolving again failed; the earlier answer stays");
                    this.keep_new(&key, &postponed);
                }
            }
        });
    }

    fn keep_new(&self, key: &str, resolved: &Resolved) {
        if let Err(error) = self.0.keep_resolution(key, resolved) {
            tracing::warn!(%error, "a new resolution could not be kept");
        }
    }

    /// Forgets an environment whose files have turned out to be gone, so that the next call builds it again.
    pub async fn forget(&self, environment: Environment) {
        let key = Arc::clone(&environment.key);
        drop(environment);
        match self.volumes() {
            Some(volumes) => drop(self.forget_inside(volumes, &key).await),
            None => drop(self.0.store.remove(&key)),
        }
    }

    /// Removes what killed servers left behind and what nobody has used for long, and keeps the size bound. Done once
    /// in each process, in the background, when it has built something.
    pub(super) fn tidy_once(&self) {
        if self.0.tidied.swap(true, Ordering::Relaxed) {
            return;
        }
        let environments = self.clone();
        tokio::task::spawn_blocking(move || environments.tidy());
    }

    /// The same, now. Blocks.
    pub fn tidy(&self) {
        let data = &self.0.data;
        JobFolder::sweep(data);
        source::sweep(&data.built());
        prune::resolutions(data);
        prune::locks(data);
        self.0.store.evict();
    }
}
