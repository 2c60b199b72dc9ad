//! Finds the bytes of a shell script that are inside quotes. A value inserted there cannot be quoted again, so templates
//! refuse values with shell metacharacters at such places.

/// For each byte, whether it is inside quotes or a here-document. When unsure, the answer is true, which at worst refuses a
/// value that would have been safe.
pub fn quoted(script: &str) -> Vec<bool> {
    if has_here_document(script) {
        return vec![true; script.len()];
    }
    let mut scan = Scan::default();
    let bytes = script.as_bytes();
    (0..bytes.len()).map(|at| scan.step(bytes, at)).collect()
}

/// Whether there is a `<<WORD`; `<<<` is a here-string, which is harmless.
fn has_here_document(script: &str) -> bool {
    script.replace("<<<", "").contains("<<")
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Inside {
    Single,
    Double,
    Paren,
    Tick,
}

#[derive(Default)]
struct Scan {
    stack: Vec<Inside>,
    escaped: bool,
    /// The previous byte was an unquoted `$`.
    after_dollar: bool,
    /// Everything from here on counts as quoted, because the scan met syntax that it does not parse.
    lost: bool,
}

impl Scan {
    /// Whether the byte at `at` is inside quotes, including quotes around an enclosing `$(…)`.
    fn step(&mut self, bytes: &[u8], at: usize) -> bool {
        let top = self.stack.last().copied();
        let after_dollar = std::mem::take(&mut self.after_dollar);
        if std::mem::take(&mut self.escaped) || self.lost {
            return true;
        }
        if top != Some(Inside::Single) && is_unparsed(bytes, at, after_dollar, self.stack.contains(&Inside::Paren)) {
            self.lost = true;
            return true;
        }
        match (bytes[at], top) {
            (b'\'', Some(Inside::Single)) => self.pop(),
            (_, Some(Inside::Single)) => {}
            (b'\\', _) => self.escaped = true,
            (b'$', _) => self.after_dollar = true,
            (b'\'', top) if top != Some(Inside::Double) => self.stack.push(Inside::Single),
            (b'"', Some(Inside::Double)) => self.pop(),
            (b'"', _) => self.stack.push(Inside::Double),
            (b'`', Some(Inside::Tick)) => self.pop(),
            (b'`', _) => self.stack.push(Inside::Tick),
            (b'(', top) if top != Some(Inside::Double) || after_dollar => self.stack.push(Inside::Paren),
            (b')', Some(Inside::Paren)) => self.pop(),
            _ => {}
        }
        self.stack.iter().any(|inside| matches!(inside, Inside::Single | Inside::Double | Inside::Tick))
    }

    fn pop(&mut self) {
        self.stack.pop();
    }
}

/// Whether syntax starts here in which quotes may have another meaning: `$'…'`, arithmetic, comments that contain quotes,
/// `${…}` with more than a name, and `case` inside parentheses, whose own parentheses are unpaired.
fn is_unparsed(bytes: &[u8], at: usize, after_dollar: bool, in_parens: bool) -> bool {
    let rest = &bytes[at..];
    let starts_word = at == 0 || b" \t\n;&|()<>`".contains(&bytes[at - 1]);
    let has = |text: &[u8], any: &[u8]| text.iter().any(|byte| any.contains(byte));
    match rest[0] {
        b'\'' => after_dollar,
        b'(' => rest.starts_with(b"(("),
        b'{' if after_dollar => {
            let inside = rest.iter().position(|&b| b == b'}').map_or(rest, |end| &rest[1..end]);
            has(inside, b"'\"`\\({")
        }
        b'#' if starts_word => has(rest.split(|&b| b == b'\n').next().unwrap_or(rest), b"'\"`\\"),
        b'c' => starts_word && in_parens && rest.starts_with(b"case"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use tarpipe::run::shell::shell;

    use super::*;

    #[test]
    fn quotes_are_found_through_nesting() {
        for (script, expected) in [
            ("echo @", false),
            ("echo 'a' \"b\" @", false),
            ("echo '@'", true),
            ("echo \"x @\"", true),
            ("echo \"$(basename \"@\")\"", true),
            ("echo \"$(basename @)\"", true),
            ("echo $(basename @)", false),
            ("echo it\\'s @", false),
            ("x=`ls @`", true),
            ("cat <<EOF\n@\nEOF", true),
            ("cat <<< @", false),
            ("case x in x) echo @;; esac", false),
            ("echo ${x} ${x:-1} @", false),
            ("true # a comment\necho @", false),
            ("echo a#b's' @", false),
        ] {
            let at = script.find('@').unwrap();
            assert_eq!(quoted(script)[at], expected, "{script}");
        }
    }

    #[test]
    fn syntax_that_the_scan_does_not_parse_counts_as_quoted() {
        for script in [
            "true # it's\necho '@'",
            "echo $'a\\'b' '@'",
            "echo \"$(case x in x) echo \"@\";; esac)\"",
            "echo \"${x:-\"@\"}\"",
            "echo \"${x:-'}\" '@'",
            "echo $(( @ ))",
            "(( x = @ ))",
        ] {
            let at = script.find('@').unwrap();
            assert!(quoted(script)[at], "{script}");
        }
    }

    const PIECES: [&str; 24] = [
        "'",
        "\"",
        "`",
        "\\",
        "$(",
        ")",
        "(",
        "${x:-",
        "}",
        "${x}",
        "$'",
        "# ",
        "\n",
        ";",
        " ",
        "echo ",
        "a",
        "case a in a) ",
        ";; esac",
        "$((",
        "))",
        "\"$(",
        ")\"",
        "<<<",
    ];

    /// Scripts of random pieces: wherever the scan says that a quoted value is safe, bash agrees.
    #[test]
    fn a_value_never_leaves_its_quotes() {
        let folder = std::env::temp_dir().join(format!("tarpipe-quoting-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut dice = tarpipe::random::Random::new(7);
        let mut tried = 0;
        for _ in 0..20_000 {
            let mut pick = || PIECES[dice.below(PIECES.len())];
            let (before, after): (String, String) =
                ((0..6).map(|_| pick()).collect(), (0..5).map(|_| pick()).collect());
            let script = format!("{before}@{after}");
            if quoted(&script)[before.len()] || !before.contains(['\'', '"', '`', '$', '#']) {
                continue;
            }
            tried += 1;
            let value = tarpipe::run::shell::quote("'\"; `touch out` $(touch out) \\");
            let mut command = shell(&format!("{before}{value}{after}"));
            _ = command.current_dir(&folder).stdin(std::process::Stdio::null()).output().unwrap();
            assert!(!folder.join("out").exists(), "{script}");
            if tried == 400 {
                break;
            }
        }
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(tried >= 300, "only {tried} scripts");
    }
}
