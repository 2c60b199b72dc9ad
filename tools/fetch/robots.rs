//! robots.txt as RFC 9309 has it: the group of our agent or of everybody, the longest rule wins.

/// More is not read.
pub const MAX_BYTES: usize = 500 << 10;

/// What one host's robots.txt says to us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Robots {
    /// There is none, or the host refuses to show it.
    AllowAll,
    /// The host is in trouble: the RFC asks to stay away.
    DenyAll,
    /// Its rules for us.
    Rules(Vec<Rule>),
}

/// A path pattern and what it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    pattern: String,
    allows: bool,
}

impl Robots {
    /// The rules for `agent`, a product name without its version.
    pub fn parse(text: &[u8], agent: &str) -> Self {
        let text = String::from_utf8_lossy(&text[..text.len().min(MAX_BYTES)]);
        let (mut ours, mut everybodys) = (Vec::new(), Vec::new());
        let (mut names_us, mut names_all, mut has_us) = (false, false, false);
        let mut in_rules = true;
        for line in text.lines() {
            let line = line.trim_start_matches('\u{feff}').split('#').next().unwrap_or_default();
            let Some((field, value)) = line.split_once(':') else { continue };
            let (field, value) = (field.trim().to_ascii_lowercase(), value.trim());
            match field.as_str() {
                "user-agent" => {
                    if std::mem::take(&mut in_rules) {
                        (names_us, names_all) = (false, false);
                    }
                    let product = value.split(['/', ' ']).next().unwrap_or_default();
                    names_all |= value == "*";
                    names_us |= product.eq_ignore_ascii_case(agent);
                    has_us |= names_us;
                }
                "allow" | "disallow" => {
                    in_rules = true;
                    let rule = Rule { pattern: value.to_owned(), allows: field == "allow" };
                    if value.is_empty() {
                        continue;
                    }
                    if names_us {
                        ours.push(rule.clone());
                    }
                    if names_all {
                        everybodys.push(rule);
                    }
                }
                _ => {}
            }
        }
        Robots::Rules(if has_us { ours } else { everybodys })
    }

    /// Whether a path with its query may be fetched.
    pub fn allows(&self, path: &str) -> bool {
        match self {
            Robots::AllowAll => true,
            Robots::DenyAll => false,
            Robots::Rules(rules) => {
                let matching = rules.iter().filter(|rule| rule.matches(path));
                // Of two equally long rules, the one that allows wins.
                matching.max_by_key(|rule| (rule.pattern.len(), rule.allows)).is_none_or(|rule| rule.allows)
            }
        }
    }
}

impl Rule {
    /// `*` stands for anything, a final `$` for the end; otherwise a prefix is enough.
    fn matches(&self, path: &str) -> bool {
        let (pattern, anchored) = match self.pattern.strip_suffix('$') {
            Some(pattern) => (pattern, true),
            None => (self.pattern.as_str(), false),
        };
        let mut pieces = pattern.split('*');
        let Some(mut rest) = path.strip_prefix(pieces.next().unwrap_or_default()) else { return false };
        let mut pieces = pieces.peekable();
        if anchored && pieces.peek().is_none() {
            return rest.is_empty();
        }
        while let Some(piece) = pieces.next() {
            if anchored && pieces.peek().is_none() {
                return rest.ends_with(piece);
            }
            match rest.find(piece) {
                Some(at) => rest = &rest[at + piece.len()..],
                None => return false,
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "User-agent: *\nDisallow: /private/\nAllow: /private/open\nDisallow: /*.gif$\n\n\
        User-Agent: otherbot\nUser-agent: tarpipe # us\nDisallow: /no\nDisallow:\nCrawl-delay: 5\n\nUser-agent: x\nDisallow: /\n";

    #[test]
    fn the_group_of_the_agent_counts_else_that_of_everybody() {
        let us = Robots::parse(TEXT.as_bytes(), "tarpipe");
        assert!(us.allows("/private/x"));
        assert!(!us.allows("/nothing"));
        let others = Robots::parse(TEXT.as_bytes(), "curl");
        assert!(!others.allows("/private/x"));
        assert!(others.allows("/private/open/x"));
        assert!(others.allows("/nothing"));
    }

    #[test]
    fn patterns_have_stars_and_ends() {
        let others = Robots::parse(TEXT.as_bytes(), "curl");
        assert!(!others.allows("/a/b.gif"));
        assert!(others.allows("/a/b.gif?x"));
        for (pattern, path, matches) in [
            ("/a*c", "/abc/d", true),
            ("/a*c$", "/abcd", false),
            ("/a$", "/a", true),
            ("/a$", "/ab", false),
            ("*", "/x", true),
            ("/**b", "/aab", true),
        ] {
            assert_eq!(Rule { pattern: pattern.into(), allows: true }.matches(path), matches, "{pattern} {path}");
        }
    }

    #[test]
    fn an_empty_file_allows_everything() {
        assert!(Robots::parse(b"", "tarpipe").allows("/"));
        assert!(Robots::parse(b"\xff\xfe junk\nUser-agent: *\nDisallow:\n", "tarpipe").allows("/"));
        assert!(!Robots::DenyAll.allows("/"));
    }
}
