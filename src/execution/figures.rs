//! Figures that a script drew and nobody gets to see: saved beside `output/`, or drawn with a backend that keeps none. Pure:
//! the script's text and the names of what it left, so it can only tell what is likely.

use super::output::{FOLDER, Left};
use crate::sandbox::spec::WORK_DIR;
use crate::workspace::media::media_type;

/// Names that a note shows.
const SHOWN: usize = 5;
/// Calls that save a figure, where a literal path follows.
const SAVES: [&str; 3] = ["savefig(", "write_image(", "write_html("];

/// A note where figures are lost. `kept` are names in the work directory that outlive the run.
pub fn lost<'a>(
    script: &str,
    ended_well: bool,
    left: &Left,
    kept: impl Iterator<Item = &'a str>,
) -> Option<String> {
    // Who gets a picture has not lost all of them, and knows the way.
    if left.output.iter().any(|file| is_figure(file.path.name())) {
        return None;
    }
    let kept: Vec<&str> = kept.chain([FOLDER]).collect();
    let mut names: Vec<&str> =
        left.beside.iter().map(String::as_str).filter(|name| is_figure(name)).collect();
    if ended_well {
        // Where it is seen what lies in the work directory, its own files are known better from there.
        names.extend(saved_by(script).filter(|path| path.contains('/') || left.beside.is_empty()));
    }
    names.retain(|path| !kept.contains(&first_folder(path)));
    names.sort_unstable();
    names.dedup();
    if names.is_empty() {
        let agg = ended_well && script.contains(".show(") && chooses_agg(script);
        return agg.then(|| {
            "open figures come back only with the backend that matplotlib starts with here: leave the choice of Agg out, or \
             save figures to output/"
                .to_owned()
        });
    }
    names.truncate(SHOWN);
    Some(format!(
        "figures saved outside of output/ were thrown away with the sandbox: {}; save to output/ to get them back",
        names.join(", ")
    ))
}

fn is_figure(name: &str) -> bool {
    let media = media_type(name);
    media.starts_with("image/") || matches!(media, "application/pdf" | "text/html")
}

/// The folder below the work directory that a path leads into, where it does.
fn first_folder(path: &str) -> &str {
    path.trim_start_matches("./").split_once('/').map_or("", |(folder, _)| folder)
}

/// Paths that stand in the script as they are.
fn saved_by(script: &str) -> impl Iterator<Item = &str> {
    SAVES
        .iter()
        .flat_map(|call| script.split(call).skip(1))
        .filter_map(literal)
        .map(below)
        .filter(|path| is_figure(path))
}

/// A path relative to the work directory where it leads there.
fn below(path: &str) -> &str {
    path.strip_prefix(WORK_DIR).and_then(|rest| rest.strip_prefix('/')).unwrap_or(path)
}

/// The string with which a text begins; none where it is put together at run time.
fn literal(text: &str) -> Option<&str> {
    let text = text.trim_start().trim_start_matches(['r', 'R']);
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let (path, _) = text[1..].split_once(quote)?;
    (!path.contains('\n')).then_some(path)
}

fn chooses_agg(script: &str) -> bool {
    let calls = [".use(", "switch_backend("].iter().flat_map(|call| script.split(call).skip(1));
    calls.filter_map(literal).any(|name| name.eq_ignore_ascii_case("agg")) || script.contains("MPLBACKEND")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::execution::output::OutputFile;
    use crate::workspace::path::WorkPath;

    fn said(script: &str, beside: &[&str], output: &[&str]) -> Option<String> {
        let file = |name: &&str| {
            let path = WorkPath::file(name).unwrap_or_default();
            OutputFile { path, size: 1, content: None }
        };
        let beside = beside.iter().map(|&name| name.to_owned()).collect();
        let left = Left { output: output.iter().map(file).collect(), more: false, beside };
        lost(script, true, &left, ["sales"].into_iter())
    }

    #[test]
    fn figures_beside_the_output_folder_are_named() {
        let lost = |names: &str| {
            Some(format!(
                "figures saved outside of output/ were thrown away with the sandbox: {names}; save to output/ to get them \
                 back"
            ))
        };
        assert_eq!(said("", &["script.py", "plot.png", "data.csv"], &[]), lost("plot.png"));
        assert_eq!(
            said("plt.savefig('/tmp/a.png'); f.savefig( r\"b/c.svg\")", &[], &[]),
            lost("/tmp/a.png, b/c.svg")
        );
        assert_eq!(
            said("fig.write_html('/work/fig.html')", &["script.py", "fig.html"], &[]),
            lost("fig.html")
        );
        assert_eq!(
            said("plt.savefig('fig.png')", &[], &[]),
            lost("fig.png"),
            "nothing is known but the script"
        );
        for (script, beside, output) in [
            ("plt.savefig('output/a.png')", &[][..], &["output/a.png"][..]),
            ("plt.savefig('./output/a.png')", &[], &[]),
            ("plt.savefig('/work/output/a.png')", &[], &[]),
            ("plt.savefig('sales/a.png')", &[], &[]),
            ("plt.savefig(f'/tmp/{name}.png')", &["plot.png"], &["output/figure-1.png"]),
            ("plt.savefig(name)", &["data.csv"], &[]),
            ("plt.savefig('moved.png')", &["script.py"], &[]),
            ("plt.savefig('/tmp/a.npz')", &[], &[]),
        ] {
            assert_eq!(said(script, beside, output), None, "{script}");
        }
    }

    #[test]
    fn a_backend_that_keeps_nothing_is_told() {
        for choice in ["matplotlib.use('Agg')", "mpl.use(\"agg\")", "plt.switch_backend('agg')"] {
            let script = format!("{choice}\nplt.plot([1])\nplt.show()");
            assert!(said(&script, &[], &[]).is_some_and(|note| note.contains("Agg")), "{choice}");
        }
        assert_eq!(said("plt.plot([1])\nplt.show()", &[], &[]), None);
        assert_eq!(said("matplotlib.use('Agg')", &[], &[]), None);
        assert_eq!(said("matplotlib.use('Agg'); plt.show()", &[], &["output/a.png"]), None);
    }
}
