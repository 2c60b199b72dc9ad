//! Which bytes of a shell script stand between quotes. A value put there cannot be quoted once more.

/// For each byte, whether it is between quotes or in a here-document. Where the scan can be wrong, it
/// errs to "quoted": then a value is refused that would have been safe.
pub fn quoted(script: &str) -> Vec<bool> {
    if has_here_document(script) {
        return vec![true; script.len()];
    }
    let mut scan = Scan { stack: Vec::new(), escaped: false };
    let bytes = script.as_bytes();
    (0..bytes.len()).map(|at| scan.step(bytes, at)).collect()
}

/// `<<WORD`; `<<<` is a word of its own and no document.
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

struct Scan {
    stack: Vec<Inside>,
    escaped: bool,
}

impl Scan {
    /// Whether the byte at `at` is between quotes, counting those around a `$(…)` too.
    fn step(&mut self, bytes: &[u8], at: usize) -> bool {
        let top = self.stack.last().copied();
        if self.escaped {
            self.escaped = false;
            return true;
        }
        match (bytes[at], top) {
            (b'\'', Some(Inside::Single)) => self.pop(),
            (_, Some(Inside::Single)) => {}
            (b'\\', _) => self.escaped = true,
            (b'\'', top) if top != Some(Inside::Double) => self.stack.push(Inside::Single),
            (b'"', Some(Inside::Double)) => self.pop(),
            (b'"', _) => self.stack.push(Inside::Double),
            (b'`', Some(Inside::Tick)) => self.pop(),
            (b'`', _) => self.stack.push(Inside::Tick),
            (b'(', top) if top != Some(Inside::Double) || (at > 0 && bytes[at - 1] == b'$') => {
                self.stack.push(Inside::Paren);
            }
            (b')', Some(Inside::Paren)) => self.pop(),
            _ => {}
        }
        self.stack.iter().any(|inside| matches!(inside, Inside::Single | Inside::Double | Inside::Tick))
    }

    fn pop(&mut self) {
        self.stack.pop();
    }
}

#[cfg(test)]
mod tests {
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
        ] {
            let at = script.find('@').unwrap();
            assert_eq!(quoted(script)[at], expected, "{script}");
        }
    }
}
