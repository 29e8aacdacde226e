//! Bounds on the values a template keeps in variables.
//!
//! Fuel pays for what the engine makes, but a list that holds the same list twice is small and has no end
//! when printed or compared, and a value inside itself overflows the stack. Invariant: what a variable
//! holds is a tree of at most [`MAX_NODES`] values and [`MAX_DEPTH`] levels without namespaces inside lists,
//! dicts or other namespaces. The filter is put behind every assignment by `rewrite`.

use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, State, Value};

/// Values inside one variable, shared ones counted each time; some ten times a large conversation.
const MAX_NODES: usize = 1 << 20;
/// Levels of lists and dicts.
const MAX_DEPTH: usize = 150;

/// Passes `value` on if it is within bounds. A lazy chain of lists becomes a list, as `+` gives in Python.
/// `into_namespace` says that it is given to a namespace, which must not come to hold itself.
pub(super) fn bounded(state: &State, value: Value, into_namespace: Option<bool>) -> Result<Value, Error> {
    if value.kind() == ValueKind::Iterable
        && let Some(len) = value.len()
    {
        state.consume_fuel(len as u64)?;
        let items = value.try_iter()?.checked().collect::<Result<Vec<_>, _>>()?;
        return bounded(state, Value::from(items), into_namespace);
    }
    let mut nodes = 0;
    let depth = usize::from(into_namespace == Some(true));
    visit(&value, depth, &mut nodes)?;
    state.consume_fuel(nodes as u64 / 16)?;
    Ok(value)
}

fn visit(value: &Value, depth: usize, nodes: &mut usize) -> Result<(), Error> {
    *nodes += 1;
    if *nodes > MAX_NODES || depth > MAX_DEPTH {
        return Err(Error::new(
            ErrorKind::InvalidOperation,
            "a variable's value is too large or nested too deeply",
        ));
    }
    match value.kind() {
        ValueKind::Seq => {
            for item in value.try_iter()?.checked() {
                visit(&item?, depth + 1, nodes)?;
            }
        }
        ValueKind::Map if is_own_object(value) && depth > 0 => {
            return Err(Error::new(ErrorKind::InvalidOperation, "a namespace inside another value"));
        }
        // What is in it was checked when it was put there.
        ValueKind::Map if is_own_object(value) => {}
        ValueKind::Map => {
            for key in value.try_iter()?.checked() {
                visit(&value.get_item(&key?)?, depth + 1, nodes)?;
            }
        }
        _ => {}
    }
    Ok(())
}

/// Whether it is one of the engine's objects (a namespace, a loop), not a dict.
fn is_own_object(value: &Value) -> bool {
    value.as_object().is_some_and(|object| {
        ["Namespace", "Loop", "Module"].iter().any(|name| object.type_name().ends_with(name))
    })
}
