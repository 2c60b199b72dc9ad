//! The expression language of `--select` and `--where`: CEL, the Common
//! Expression Language, which Kubernetes and Google Cloud use too.
//!
//! | expression | holds if |
//! |---|---|
//! | `json.width >= 256 && json.height >= 256` | both numbers are large enough |
//! | `key.glob('train/*')` | the key matches; `*` matches slashes too |
//! | `key.matches('^n0[0-9]+/')` | the regular expression is found in the key |
//! | `'jpg' in fields` | the sample has this field |
//! | `has(json.caption) && size(json.caption) > 10` | the entry exists and is long enough |
//!
//! `glob` is ours; everything else is CEL's. Evaluating an expression that
//! refers to something that the item lacks is an error, which `has` and `in`
//! avoid.
//!
//! Expressions come from the command line, but may be generated, so their
//! length and depth are limited. Evaluation has no side effects and no loops
//! other than over lists of the item itself.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::{Result, anyhow, bail};
use cel::extractors::This;
use cel::{Context, Env, ExecutionError, ParseErrors, Program};

use crate::value::nearest::did_you_mean;

pub use cel::Value;

/// A compiled expression whose result is true or false. Compiled once,
/// evaluated per item; can be shared between threads.
///
/// ```
/// use tarpipe::value::expression::{Expression, from_json};
///
/// let wide = Expression::parse("json.width >= 256")?;
/// let json = from_json(serde_json::json!({"width": 300}));
/// assert!(wide.holds([("json", json)])?);
/// # anyhow::Ok(())
/// ```
pub struct Expression {
    program: Program,
    variables: Vec<String>,
    env: Arc<Env>,
}

impl Expression {
    /// Compiles `text`. The type of the result is not checked here: `1 + 1`
    /// compiles, and fails for every item.
    ///
    /// # Errors
    ///
    /// A syntax error (with the parser's message on one line), a text of more
    /// than 60,000 bytes, or more than 1000 operators outside of string
    /// literals.
    pub fn parse(text: &str) -> Result<Self> {
        check_length(text)?;
        let program = Program::compile(text).map_err(|err| anyhow!("{}", explain_syntax(text, &err)))?;
        let variables = program.references().variables().into_iter().map(str::to_owned).collect();
        Ok(Expression { program, variables, env: Arc::new(Env::stdlib()) })
    }

    /// The names of the variables that the expression refers to. A caller need
    /// not provide any others, and can skip the work of making them.
    pub fn variables(&self) -> &[String] {
        &self.variables
    }

    /// Evaluates the expression for an item with these variables.
    ///
    /// # Errors
    ///
    /// A reference to a missing variable or field, an operation on the wrong
    /// types, or a result that is not a boolean. The item is then neither
    /// selected nor rejected; callers count it as failed.
    pub fn holds<'a>(&self, variables: impl IntoIterator<Item = (&'a str, Value)>) -> Result<bool> {
        let mut context = Context::with_env(Arc::clone(&self.env));
        let mut known = BTreeSet::new();
        context.add_function("glob", glob).map_err(|err| anyhow!("{err}"))?;
        for (name, value) in variables {
            known.insert(name.to_owned());
            known.extend(keys_of(&value));
            context.add_variable_from_value(name, value);
        }
        match self.program.execute(&context) {
            Ok(Value::Bool(holds)) => Ok(holds),
            Ok(other) => bail!("the expression is of type {}, not true or false", other.type_of()),
            Err(err) => bail!("{}", explain(&err, &known)),
        }
    }
}

/// The names of the entries of a map, at any depth that users write.
fn keys_of(value: &Value) -> Vec<String> {
    let Value::Map(map) = value else { return Vec::new() };
    let inner = map.map.values().flat_map(keys_of);
    map.map.keys().map(ToString::to_string).chain(inner).collect()
}

/// A failed evaluation, with the nearest name if one is unknown.
fn explain(err: &ExecutionError, known: &BTreeSet<String>) -> String {
    let nearest = |name: &str| did_you_mean(name, known.iter().map(String::as_str));
    match err {
        ExecutionError::NoSuchKey(name) => format!("no entry '{name}'{}", nearest(name)),
        ExecutionError::UndeclaredReference(name) => format!("no field or column '{name}'{}", nearest(name)),
        ExecutionError::NoSuchOverload(_) => {
            format!("{}; values of different types cannot be compared or combined", one_line(&err.to_string()))
        }
        err => one_line(&err.to_string()),
    }
}

/// A syntax error: the expression up to the mistake, and what to write instead
/// of what other languages have.
fn explain_syntax(text: &str, err: &ParseErrors) -> String {
    let Some(first) = err.errors.first() else { return "syntax error".into() };
    let at = usize::try_from(first.pos.1).unwrap_or(0).saturating_sub(1);
    let line = text.lines().nth(usize::try_from(first.pos.0).unwrap_or(1).saturating_sub(1)).unwrap_or(text);
    let (before, after): (String, String) = (line.chars().take(at).collect(), line.chars().skip(at).collect());
    let what = match first.msg.contains("<EOF>") && line.chars().count() <= at {
        true => "the expression ends too early",
        false => "syntax error",
    };
    format!("{what}: {before}<-- HERE {after}{}", suggestion(text))
}

/// The operator of this language for one of another language.
fn suggestion(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let others = [
        ("=", "=="),
        ("<>", "!="),
        ("and", "&&"),
        ("AND", "&&"),
        ("or", "||"),
        ("OR", "||"),
        ("not", "!"),
        ("&", "&&"),
        ("|", "||"),
    ];
    let found = others.iter().find(|(theirs, _)| words.contains(theirs));
    let assigned = || {
        let bytes = text.as_bytes();
        let is_lone = |at: &usize| {
            let beside = |at: usize| bytes.get(at).is_some_and(|byte| b"=!<>".contains(byte));
            bytes[*at] == b'=' && !beside(at + 1) && !at.checked_sub(1).is_some_and(beside)
        };
        (0..bytes.len()).find(is_lone).map(|_| &("=", "=="))
    };
    let found = found.or_else(assigned);
    found.map(|(theirs, ours)| format!("; write '{ours}' for '{theirs}'")).unwrap_or_default()
}

/// Each operator may cost the parser and the interpreter one level of
/// recursion, and the stack is finite.
const MAX_OPERATORS: usize = 1000;
/// Beyond 64 KB the parser's error positions overflow.
const MAX_BYTES: usize = 60_000;

/// Rejects expressions that could exhaust the stack. String literals and long
/// lists are not counted.
fn check_length(text: &str) -> Result<()> {
    if text.len() > MAX_BYTES {
        bail!("more than {MAX_BYTES} bytes");
    }
    let (mut operators, mut quote, mut escaped) = (0, None, false);
    for byte in text.bytes() {
        match (byte, quote) {
            _ if std::mem::take(&mut escaped) => {}
            (b'\\', Some(_)) => escaped = true,
            (_, Some(open)) if byte == open => quote = None,
            (_, Some(_)) => {}
            (b'\'' | b'"', None) => quote = Some(byte),
            _ => operators += usize::from(b"+-*/%.!?:&|<>=([{".contains(&byte)),
        }
    }
    if operators > MAX_OPERATORS {
        bail!("more than {MAX_OPERATORS} operators");
    }
    Ok(())
}

/// Converts a JSON value. Whole numbers become integers (unsigned beyond 63
/// bits), other numbers floats; objects become maps. Consumes its argument:
/// strings are moved, not copied.
pub fn from_json(json: serde_json::Value) -> Value {
    use serde_json::Value as Json;
    match json {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Bool(value),
        Json::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(whole), _) => Value::Int(whole),
            (None, Some(whole)) => Value::UInt(whole),
            (None, None) => Value::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(text) => text.into(),
        Json::Array(items) => Value::List(Arc::new(items.into_iter().map(from_json).collect())),
        Json::Object(fields) => {
            let fields = fields.into_iter().map(|(name, value)| (name.into(), from_json(value)));
            Value::Map(cel::objects::Map { map: Arc::new(fields.collect()) })
        }
    }
}

/// `key.glob('train/*')`: `*` matches any run of characters, slashes included,
/// and `?` matches one. Nothing else has a meaning.
fn glob(This(text): This<Arc<String>>, pattern: Arc<String>) -> bool {
    let mut pattern = pattern.replace('[', "[[]");
    while pattern.contains("**") {
        pattern = pattern.replace("**", "*");
    }
    glob::Pattern::new(&pattern).is_ok_and(|pattern| pattern.matches(&text))
}

/// The parser's messages have several lines, with a drawing of the position.
fn one_line(text: &str) -> String {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(text: &str) -> Result<bool> {
        let json = serde_json::json!({"width": 300, "score": 0.25, "tags": ["a"], "big": u64::MAX});
        Expression::parse(text)?.holds([("key", "train/cat-1".into()), ("json", from_json(json))])
    }

    #[test]
    fn json_fields_and_keys_can_be_compared() {
        for yes in [
            "json.width >= 256",
            "json.width == 300",
            "json.width > 0.3",
            "json.score < 1",
            "json.score <= 0.25 && json.width > 299",
            "'a' in json.tags",
            "json.big > 5u",
            "key.startsWith('train/')",
            "key.matches('cat-[0-9]$')",
            "key.glob('train/*-?')",
            "key.glob('**cat***')",
            "'a[1]b]'.glob('a[?]*]')",
            "has(json.width) && !has(json.height)",
        ] {
            assert!(holds(yes).unwrap(), "{yes}");
        }
        for no in ["key.glob('*/dog*')", "key.glob('train/cat-[1]')", "key.glob('train')"] {
            assert!(!holds(no).unwrap(), "{no}");
        }
    }

    #[test]
    fn an_expression_without_a_boolean_result_is_an_error() {
        for bad in ["json.height > 1", "nothing", "key", "json.width > 'a'", "1 +", "", "a b", "'\\"] {
            assert!(holds(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn excessive_expressions_are_refused() {
        for (piece, n) in [("+1", 900), ("+1", 20_000), (".x", 900), (".x", 20_000), ("&&true", 900), (" ", 70_000)] {
            _ = holds(&format!("1{}", piece.repeat(n)));
        }
        assert!(Expression::parse(&format!("1{} > 0", "+1".repeat(1001))).is_err());
        assert!(holds(&format!("key in [{}'train/cat-1']", "'a.b+c', ".repeat(3000))).unwrap());
    }

    #[test]
    fn the_variables_of_an_expression_are_known() {
        assert_eq!(Expression::parse("json.a > 1 && json.b == json.a").unwrap().variables(), ["json"]);
    }
}
