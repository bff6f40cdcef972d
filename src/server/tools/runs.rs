//! What scripts left in `output/`, and output that a result does not show whole: kept in memory for a while so that it can
//! be read as resources: `run://N/PATH`.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::percent_decode_str;
use rmcp::ErrorData;
use rmcp::model::{CallToolResult, ReadResourceResult, Resource, ResourceContents, ResourceTemplate, Tool};

use super::{Call, Family};
use crate::execution::output::OutputFile;
use crate::sandbox::BoxFuture;
use crate::server::reply;
use crate::workspace::media::media_type;

/// Bytes of all files that are kept; the oldest run goes first.
const KEPT: usize = 64 << 20;

/// The files of the last runs.
#[derive(Default)]
pub struct Runs(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    last: u64,
    runs: VecDeque<(u64, Vec<OutputFile>)>,
}

fn bytes(files: &[OutputFile]) -> usize {
    files.iter().filter_map(|file| file.content.as_ref()).map(|content| content.len()).sum()
}

impl Runs {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a run's files and gives the run a number; none where it left no files.
    pub fn keep(&self, files: &[OutputFile]) -> Option<u64> {
        if files.is_empty() {
            return None;
        }
        let mut kept = self.kept();
        kept.last += 1;
        let number = kept.last;
        kept.runs.push_back((number, files.to_vec()));
        while kept.runs.len() > 1 && kept.runs.iter().map(|(_, files)| bytes(files)).sum::<usize>() > KEPT {
            kept.runs.pop_front();
        }
        Some(number)
    }

    /// All files that can be read.
    pub fn list(&self) -> Vec<Resource> {
        let kept = self.kept();
        let files = kept.runs.iter().flat_map(|(run, files)| files.iter().map(move |file| (*run, file)));
        files
            .filter(|(_, file)| file.content.is_some())
            .map(|(run, file)| reply::run_file(run, file))
            .collect()
    }

    /// Reads one.
    pub fn read(&self, uri: &str) -> Result<ReadResourceResult, ErrorData> {
        let rest = uri.strip_prefix(reply::RUN_SCHEME).unwrap_or(uri);
        let (number, path) = rest.split_once('/').unwrap_or((rest, ""));
        let path = percent_decode_str(path).decode_utf8_lossy();
        let kept = self.kept();
        let of_run = kept.runs.iter().find(|(run, _)| number.parse() == Ok(*run));
        let file = of_run.and_then(|(_, files)| files.iter().find(|file| file.path.to_string() == path));
        let Some(content) = file.and_then(|file| file.content.as_deref()) else {
            return Err(reply::unknown_resource(uri));
        };
        let contents = match std::str::from_utf8(content) {
            Ok(text) if !text.contains('\0') => ResourceContents::text(text, uri),
            _ => ResourceContents::blob(STANDARD.encode(content), uri),
        };
        Ok(ReadResourceResult::new(vec![contents.with_mime_type(media_type(&path))]))
    }
}

/// The family that serves them: it has no tools, those of the others keep files.
pub struct RunFiles(pub Arc<Runs>);

impl Family for RunFiles {
    fn tools(&self) -> Vec<Tool> {
        Vec::new()
    }

    fn call<'a>(&'a self, _call: Call<'a>) -> BoxFuture<'a, CallToolResult> {
        unreachable!("only tools that a family names are called")
    }

    fn resources(&self) -> BoxFuture<'_, Vec<Resource>> {
        Box::pin(std::future::ready(self.0.list()))
    }

    fn templates(&self) -> Vec<ResourceTemplate> {
        let template = format!("{}{{run}}/{{+path}}", reply::RUN_SCHEME);
        vec![ResourceTemplate::new(template, "script output").with_description(reply::describe::OUTPUT)]
    }

    fn read<'a>(&'a self, uri: &'a str) -> Option<BoxFuture<'a, Result<ReadResourceResult, ErrorData>>> {
        let ours = uri.starts_with(reply::RUN_SCHEME);
        ours.then(|| Box::pin(std::future::ready(self.0.read(uri))) as BoxFuture<'a, _>)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::path::WorkPath;

    fn file(name: &str, size: usize) -> OutputFile {
        let path = WorkPath::file(name).unwrap_or_default();
        OutputFile { path, size: size as u64, content: Some(vec![b'x'; size].into()) }
    }

    #[test]
    fn the_oldest_run_goes_when_there_is_too_much() {
        let runs = Runs::default();
        assert_eq!(runs.keep(&[]), None);
        assert_eq!(runs.keep(&[file("output/a b.txt", 1)]), Some(1));
        assert!(runs.read("run://1/output/a%20b.txt").is_ok());
        for number in 2..=9 {
            assert_eq!(runs.keep(&[file("output/large", 30 << 20)]), Some(number));
        }
        assert!(runs.read("run://1/output/a%20b.txt").is_err());
        assert_eq!(runs.list().len(), 2);
        for uri in ["run://9/output/none", "run://8", "run://x/output/large", "run://9/../output/large"] {
            assert!(runs.read(uri).is_err(), "{uri}");
        }
        assert!(runs.read("run://9/output/large").is_ok());
    }
}
