//! What to run for a sample: an interpreter with a command line or a script file, or a program without a shell.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};
use tarpipe::cli::Usage;
use tarpipe::run::shell;

/// Builtins and keywords of bash, which take precedence over programs of the same name.
const BUILTINS: &str = "[ alias bg bind break builtin caller case cd command compgen complete compopt continue coproc \
declare dirs disown do done echo elif else enable esac eval exec exit export false fc fg fi for function getopts hash \
help history if in jobs kill let local logout mapfile popd printf pushd pwd read readarray readonly return select set \
shift shopt source suspend test then time times trap true type typeset ulimit umask unalias unset until wait while";

/// An interpreter and its script.
#[derive(Clone, Debug)]
pub struct Interpreter {
    words: Vec<String>,
    /// The file of the first word, looked up once instead of for each sample.
    program: PathBuf,
    script: Script,
}

#[derive(Clone, Debug)]
enum Script {
    Line(String),
    File(PathBuf),
    /// None: the words are a program and its arguments.
    None,
}

impl Interpreter {
    /// `interpreter`, which may have flags, with exactly one of `-c LINE` and `-s FILE`.
    pub fn new(interpreter: &str, line: Option<&str>, file: Option<&str>) -> Result<Self> {
        let words: Vec<String> = interpreter.split_whitespace().map(str::to_owned).collect();
        let script = match (line, file) {
            (Some(line), None) => Script::Line(line.to_owned()),
            // Absolute, because commands run in another directory.
            (None, Some(file)) => Script::File(std::fs::canonicalize(file).with_context(|| file.to_owned())?),
            _ => bail!(Usage("no command; use -c COMMAND or -s FILE".into())),
        };
        if words.is_empty() {
            bail!(Usage("--interpreter is empty".into()));
        }
        let program = program(&words[0]);
        if !words[0].contains('/') && program.is_relative() {
            bail!("--interpreter {}: command not found", words[0]);
        }
        Ok(Interpreter { program, words, script })
    }

    /// The text of the script, for an interpreter that is already running.
    pub fn source(&self) -> Result<String> {
        match &self.script {
            Script::Line(line) => Ok(line.clone()),
            Script::File(file) => std::fs::read_to_string(file).with_context(|| file.display().to_string()),
            Script::None => Ok(self.words.join(" ")),
        }
    }

    /// The command that starts a new interpreter with the script.
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

    /// The same without a shell, if the script is certainly a plain call of a program. Starting a shell is more than half
    /// of the cost of a filter.
    pub fn without_shell(self) -> Self {
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

/// The absolute path of a program on PATH; else the word itself.
fn program(word: &str) -> PathBuf {
    let found = if word.contains('/') { None } else { shell::find(word) };
    found.filter(|path| path.is_absolute()).unwrap_or_else(|| word.into())
}

fn is_builtin(name: &str) -> bool {
    BUILTINS.split(' ').any(|builtin| builtin == name)
}

/// Whether the environment defines functions or a startup file for bash.
fn shell_is_prepared() -> bool {
    std::env::vars_os().any(|(name, _)| {
        let name = name.to_string_lossy();
        name.starts_with("BASH_FUNC_") || name == "BASH_ENV"
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program_of(line: &str) -> String {
        let command = Interpreter::new("bash", Some(line), None).unwrap().without_shell().command();
        let program = std::path::Path::new(command.get_program()).file_name().unwrap();
        program.to_string_lossy().into_owned()
    }

    #[test]
    fn only_plain_calls_of_programs_run_without_a_shell() {
        assert_eq!(program_of("cat"), "cat");
        assert_eq!(program_of("tr -d x"), "tr");
        for line in
            ["echo x", "cat | cat", "cat $x", "cat *", "A=1 cat", "cat 'a b'", "nosuchprogram", "cat; cat", "cat &"]
        {
            assert_eq!(program_of(line), "bash", "{line}");
        }
    }
}
