//! Manual pages and shell completions, generated from the help of the flags.
//! The results are checked in, and a test compares them.

use std::io::Write;

use anyhow::{Result, bail};
use clap::Command;
use clap_complete::Shell;

/// What [`generate`] can make.
pub const KINDS: [&str; 4] = ["man", "bash", "zsh", "fish"];

/// The release date, for the footer of the page. A build date would change the
/// bytes.
const RELEASED: &str = "2026-11-16";

/// Writes the manual page (`man`) or a completion script (`bash`, `zsh`,
/// `fish`) of a command. Fails for any other `kind`, or if `out` does.
pub fn generate(kind: &str, mut command: Command, out: &mut dyn Write) -> Result<()> {
    let name = command.get_name().to_owned();
    let shell = match kind {
        "man" => return page(&command, out),
        "bash" => Shell::Bash,
        "zsh" => Shell::Zsh,
        "fish" => Shell::Fish,
        _ => bail!("--generate takes one of {}", KINDS.join(", ")),
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, name, &mut script);
    Ok(out.write_all(&script)?)
}

fn page(command: &Command, out: &mut dyn Write) -> Result<()> {
    let name = command.get_name();
    let text = |styled: Option<&clap::builder::StyledStr>| styled.map(ToString::to_string).unwrap_or_default();
    let about = text(command.get_about());
    let long = text(command.get_long_about());
    let version = command.get_version().unwrap_or_default();
    writeln!(out, ".TH {} 1 {RELEASED} \"tarpipe {version}\" tarpipe", name.to_uppercase())?;
    writeln!(out, ".SH NAME\n{name} \\- {}", escape(&about))?;
    writeln!(out, ".SH SYNOPSIS\n.B {name}\n{}", escape(&synopsis(command)))?;
    writeln!(out, ".SH DESCRIPTION")?;
    // The first paragraph repeats the line under NAME.
    paragraphs(long.split_once("\n\n").map_or(&about, |(_, rest)| rest), out)?;
    writeln!(out, ".SH OPTIONS")?;
    for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
        option(argument, out)?;
    }
    commands(command, out)?;
    examples(&text(command.get_after_long_help()), out)?;
    writeln!(out, ".SH EXIT STATUS\n{}", EXIT_STATUS)?;
    writeln!(out, ".SH SEE ALSO\n.BR tarpipe (7),\n.BR tarpipe-cookbook (7)")?;
    Ok(())
}

/// The same for all tools; see `cli::main`.
const EXIT_STATUS: &str =
    "0 if everything was done; 1 if the run failed; 2 for a usage error; 3 if the stream is complete but too many \
items failed; 101 for a bug; 128+N if ended by signal N.
See
.BR tarpipe (7).";

/// The section of subcommands, with the flags of each.
fn commands(command: &Command, out: &mut dyn Write) -> Result<()> {
    let mut shown = command.get_subcommands().filter(|command| !command.is_hide_set()).peekable();
    if shown.peek().is_some() {
        writeln!(out, ".SH COMMANDS")?;
    }
    for command in shown {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        writeln!(out, ".SS {}\n{}", escape(command.get_name()), escape(&sentences(&about)))?;
        for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
            option(argument, out)?;
        }
    }
    Ok(())
}

/// What follows the tool's name in the usage line.
fn synopsis(command: &Command) -> String {
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").trim();
    usage.split_once(' ').map_or("", |(_, rest)| rest).to_owned()
}

/// The paragraph of one flag or argument.
fn option(argument: &clap::Arg, out: &mut dyn Write) -> Result<()> {
    let mut names = Vec::new();
    names.extend(argument.get_short().map(|short| format!("\\fB\\-{short}\\fR")));
    names.extend(argument.get_long().map(|long| format!("\\fB\\-\\-{}\\fR", escape(long))));
    let values: Vec<&str> = argument.get_value_names().unwrap_or_default().iter().map(|name| name.as_str()).collect();
    let takes_value = argument.get_action().takes_values();
    let value = if takes_value { format!("\\fI{}\\fR", escape(&values.join(" "))) } else { String::new() };
    let head = if names.is_empty() { value } else { format!("{} {value}", names.join(", ")) };
    writeln!(out, ".TP\n{}", head.trim_end())?;
    let help = argument.get_long_help().or(argument.get_help()).map(ToString::to_string).unwrap_or_default();
    writeln!(out, "{}", escape(&sentences(&help)))?;
    let defaults: Vec<String> =
        argument.get_default_values().iter().map(|value| value.to_string_lossy().into_owned()).collect();
    let defaults = defaults.join(" ");
    if takes_value && !defaults.is_empty() {
        writeln!(out, "Default: {}.", escape(&defaults))?;
    }
    Ok(())
}

/// Joins the paragraphs of a help text; the first, which is a line without a
/// full stop, gets one.
fn sentences(help: &str) -> String {
    let (line, rest) = help.split_once("\n\n").unwrap_or((help, ""));
    format!("{}.\n{}", line.trim_end_matches('.'), rest.replace("\n\n", "\n")).trim_end().to_owned()
}

/// The examples of the long help. Lines that begin with `#` explain the command
/// after them.
fn examples(text: &str, out: &mut dyn Write) -> Result<()> {
    let lines: Vec<&str> = text.lines().skip_while(|line| !line.starts_with(' ')).map(str::trim).collect();
    if lines.is_empty() {
        return Ok(());
    }
    writeln!(out, ".SH EXAMPLES")?;
    for (i, line) in lines.into_iter().filter(|line| !line.is_empty()).enumerate() {
        let paragraph = if i == 0 { "" } else { ".PP\n" };
        match line.strip_prefix("# ") {
            Some(comment) => writeln!(out, "{paragraph}{}:", escape(comment.trim_end_matches('?')))?,
            None => writeln!(out, ".RS 4\n.nf\n{}\n.fi\n.RE", escape(line))?,
        }
    }
    Ok(())
}

fn paragraphs(text: &str, out: &mut dyn Write) -> Result<()> {
    for (i, paragraph) in text.split("\n\n").enumerate() {
        if i > 0 {
            writeln!(out, ".PP")?;
        }
        writeln!(out, "{}", escape(paragraph.trim()))?;
    }
    Ok(())
}

/// Escapes text for roff.
fn escape(text: &str) -> String {
    let escaped = text.replace('\\', "\\e").replace('-', "\\-").replace('~', "\\(ti").replace('^', "\\(ha");
    let lines: Vec<String> = escaped.lines().map(guard).collect();
    lines.join("\n")
}

/// A dot or a quote at the beginning of a line would be a roff command.
fn guard(line: &str) -> String {
    let line = line.trim();
    if line.starts_with(['.', '\'']) { format!("\\&{line}") } else { line.to_owned() }
}
