//! What runs a command: an interpreter with a line or a file, or the program itself.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};
use tarpipe::cli::Usage;
use tarpipe::run::shell;

/// Words that bash knows itself. A program of the same name is not what they mean.
const BUILTINS: &str = "[ alias bg bind break builtin caller case cd command compgen complete compopt continue coproc \
declare dirs disown do done echo elif else enable esac eval exec exit export false fc fg fi for function getopts hash \
help history if in jobs kill let local logout mapfile popd printf pushd pwd read readarray readonly return select set \
shift shopt source suspend test then time times trap true type typeset ulimit umask unalias unset until wait while";

/// What is run, and by what.
#[derive(Clone, Debug)]
pub struct Interpreter {
    words: Vec<String>,
    /// The file of the first word, so that it is looked for once and not for each sample.
    program: PathBuf,
    script: Script,
}

#[derive(Clone, Debug)]
enum Script {
    Line(String),
    File(PathBuf),
    /// The words are the program itself.
    None,
}

impl Interpreter {
    /// `-c LINE` or `-s FILE`, exactly one of them, run by `interpreter`, which may have flags.
    pub fn new(interpreter: &str, line: Option<&str>, file: Option<&str>) -> Result<Self> {
        let words: Vec<String> = interpreter.split_whitespace().map(str::to_owned).collect();
        let script = match (line, file) {
            (Some(line), None) => Script::Line(line.to_owned()),
            // Commands run in another directory.
            (None, Some(file)) => Script::File(std::fs::canonicalize(file).with_context(|| file.to_owned())?),
            _ => bail!(Usage("what should be run? (write -c COMMAND or -s FILE)".into())),
        };
        if words.is_empty() {
            bail!(Usage("--interpreter names no program".into()));
        }
        Ok(Interpreter { program: program(&words[0]), words, script })
    }

    /// The script, for an interpreter that is already running.
    pub fn source(&self) -> Result<String> {
        match &self.script {
            Script::Line(line) => Ok(line.clone()),
            Script::File(file) => std::fs::read_to_string(file).with_context(|| file.display().to_string()),
            Script::None => Ok(self.words.join(" ")),
        }
    }

    /// A fresh interpreter, about to run the script.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.arg0(&self.words[0]).args(&self.words[1..]);
        match &self.script {
            Script::Line(line) => command.args(["-c", line]),
            Script::File(file) => command.arg(file),
            Script::None => &mut command,
        };
        command
    }

    /// The program alone that the script is nothing but a call of, where that is certain; else the
    /// same. Saves the start of a shell, which is more than half of what a filter costs.
    pub fn shortest(self) -> Self {
        let Script::Line(line) = &self.script else { return self };
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let plain = |word: &String| word.chars().all(|c| c.is_ascii_alphanumeric() || "-_./:,@%+".contains(c));
        let is_shell = self.words.len() == 1 && matches!(self.words[0].as_str(), "bash" | "sh");
        let starts_a_program = |name: &String| !name.contains('/') && !is_builtin(name) && shell::find(name).is_some();
        if is_shell && words.iter().all(plain) && words.first().is_some_and(starts_a_program) && !shell_is_prepared() {
            return Interpreter { program: program(&words[0]), words, script: Script::None };
        }
        self
    }
}

/// Where a word leads from every directory; else the word.
fn program(word: &str) -> PathBuf {
    let found = if word.contains('/') { None } else { shell::find(word) };
    found.filter(|path| path.is_absolute()).unwrap_or_else(|| word.into())
}

fn is_builtin(name: &str) -> bool {
    BUILTINS.split(' ').any(|builtin| builtin == name)
}

/// Whether the environment gives shells functions or a file to begin with.
fn shell_is_prepared() -> bool {
    std::env::vars_os().any(|(name, _)| {
        let name = name.to_string_lossy();
        name.starts_with("BASH_FUNC_") || name == "BASH_ENV"
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shortest(line: &str) -> String {
        let command = Interpreter::new("bash", Some(line), None).unwrap().shortest().command();
        let program = std::path::Path::new(command.get_program()).file_name().unwrap();
        program.to_string_lossy().into_owned()
    }

    #[test]
    fn only_plain_calls_of_programs_do_without_a_shell() {
        assert_eq!(shortest("cat"), "cat");
        assert_eq!(shortest("tr -d x"), "tr");
        for line in
            ["echo x", "cat | cat", "cat $x", "cat *", "A=1 cat", "cat 'a b'", "nosuchprogram", "cat; cat", "cat &"]
        {
            assert_eq!(shortest(line), "bash", "{line}");
        }
    }
}
