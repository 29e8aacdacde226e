//! The sliding window: whether the file has one, and whether the class reads it.
//!
//! A window is the key most often copied without meaning anything: behind a flag that is off, or into
//! a class that has no windows. So its value is believed only where the class, or a list that says
//! which layers slide, asks for it.

use serde_json::Value;

use super::evidence::{Found, Reader, Zero, tokens};
use super::families::{Family, Plan, Window};
use crate::error::Result;

/// Keys that hold a window, in order of precedence.
const KEYS: &[&str] = &["sliding_window", "attention_window_size", "window_size", "local_attention"];
/// What the classes with a flag use when the flag is on and the window absent.
const FLAGGED_DEFAULT: usize = 4096;

/// What the file and the class say about windows.
pub(super) struct Windows<'a> {
    raw: Found<(&'static str, &'a Value)>,
    default: Option<usize>,
    /// Whether windows apply where no list says which layers slide.
    reads: bool,
    /// `use_sliding_window` is false.
    disabled: bool,
    /// First layer with a window where no list says which.
    pub first_layer: usize,
}

impl<'a> Windows<'a> {
    pub(super) fn read(reader: &mut Reader<'a>, family: &Family) -> Result<Self> {
        let is_gguf = reader.config().is_gguf();
        let mut raw = reader.first(KEYS);
        if is_gguf && raw.value().is_some_and(|(_, value)| value.as_u64() == Some(0)) {
            raw = Found::Absent;
        }
        let flag = reader.flag("use_sliding_window", "whether the sliding window is used at all")?;
        let (default, reads, class_start) = match family.window {
            Window::NotRead => (None, is_gguf, 0),
            Window::Optional => (None, true, 0),
            Window::Default(window) => (Some(window), true, 0),
            Window::Flagged(start) => (Some(FLAGGED_DEFAULT), flag == Some(true) || is_gguf, start),
            Window::Late(start) => (Some(FLAGGED_DEFAULT), true, start),
        };
        let starts_late = matches!(family.window, Window::Flagged(_) | Window::Late(_))
            || (flag == Some(true) && family.name.is_empty());
        let first_layer = if starts_late && reads && !is_gguf && family.plan == Plan::Uniform {
            reader.count_or(
                "max_window_layers",
                class_start,
                Zero::Allowed,
                "layers from this index on slide",
            )?
        } else {
            0
        };
        let default = default.filter(|_| !is_gguf);
        // Classes that alternate by their own plan do not read the flag.
        let has_flag = family.plan == Plan::Uniform;
        Ok(Self { raw, default, reads, disabled: flag == Some(false) && has_flag, first_layer })
    }

    /// The window for layers that no list marks, `None` when there is none.
    pub(super) fn active(&self, reader: &mut Reader<'a>) -> Result<Option<usize>> {
        if self.disabled || !self.reads {
            self.ignore(reader);
            return Ok(None);
        }
        if let Found::Null = self.raw {
            reader.read(KEYS[0], &Value::Null, "null: no window, even where the class has a default");
        }
        self.value(reader)
    }

    /// The window for layers that a list marks as sliding; `None` when windows are switched off.
    pub(super) fn of_list(&self, list: &str, reader: &mut Reader<'a>) -> Result<Option<usize>> {
        if self.disabled {
            self.ignore(reader);
            return Ok(None);
        }
        let window = self.value(reader)?;
        if window.is_none() {
            let state = if matches!(self.raw, Found::Null) { "null" } else { "missing" };
            let (list, key) = (reader.config().spelling(list), reader.config().spelling(KEYS[0]));
            return Err(reader.unsupported(format!("`{list}` has sliding layers, but `{key}` is {state}")));
        }
        Ok(window)
    }

    fn value(&self, reader: &mut Reader<'a>) -> Result<Option<usize>> {
        match self.raw {
            Found::Is((key, value)) => {
                let window = tokens(value).map_err(|fault| reader.at_key(key, fault))?;
                reader.read(key, value, "sliding window in tokens");
                Ok(Some(window))
            }
            Found::Null => Ok(None),
            Found::Absent => {
                if let Some(window) = self.default {
                    reader.assumed(KEYS[0], window, "class default: sliding window in tokens");
                }
                Ok(self.default)
            }
        }
    }

    fn ignore(&self, reader: &mut Reader<'a>) {
        if let Found::Is((key, _)) = self.raw {
            let why = if self.disabled {
                "use_sliding_window is false"
            } else if self.default.is_some() {
                "use_sliding_window is absent, and the class default is false"
            } else {
                "this class has no sliding window"
            };
            reader.ignored(key, why);
        }
    }
}
