//! Changes to a template's text before the engine parses it.
//!
//! `{% generation %}` blocks, which training templates put around what the assistant says, are unknown to
//! the engine and only a scope for rendering: they become `with` blocks, which have that scope (a variable
//! set inside is gone outside) and the same rules for white space. Values given to a variable go through
//! the filter [`BOUNDED`], so that none grows without end. Invariant: line numbers stay, and what is
//! inside strings, comments, raw blocks and plain text is not touched.

use std::borrow::Cow;

/// Name of the filter behind the value of every `set` tag; see `bounds`. Its argument says that the value
/// goes into a namespace.
pub(super) const BOUNDED: &str = "specdec_bounded";

/// The template as the engine gets it.
pub(super) fn rewrite(template: &str) -> Cow<'_, str> {
    let mut rewritten = String::new();
    let mut copied = 0;
    let mut position = 0;
    while let Some(offset) = template[position..].find('{') {
        let start = position + offset;
        let rest = &template[start..];
        if rest.starts_with("{#") {
            position = rest.find("#}").map_or(template.len(), |end| start + end + 2);
        } else if rest.starts_with("{{") {
            position = expression_end(template, start + 2, "}}");
        } else if rest.starts_with("{%") {
            let (name_start, name_end) = tag_name(template, start + 2);
            let replacement = match &template[name_start..name_end] {
                "raw" => {
                    position = raw_end(template, expression_end(template, name_end, "%}"));
                    continue;
                }
                "set" => {
                    position = expression_end(template, name_end, "%}");
                    if let Some((value_start, value_end)) = assigned_value(template, name_end, position) {
                        rewritten.push_str(&template[copied..value_start]);
                        rewritten.push('(');
                        rewritten.push_str(&template[value_start..value_end]);
                        rewritten.push_str(")|");
                        rewritten.push_str(BOUNDED);
                        if template[name_end..value_start].contains('.') {
                            rewritten.push_str("(true)");
                        }
                        rewritten.push(' ');
                        copied = value_end;
                    }
                    continue;
                }
                "generation" => Some("with"),
                "endgeneration" => Some("endwith"),
                _ => None,
            };
            position = expression_end(template, name_end, "%}");
            let body = template[name_end..position].trim_end_matches("%}").trim_end_matches(['-', '+']);
            let is_whole = template[name_end..position].ends_with("%}") && body.trim().is_empty();
            if let Some(replacement) = replacement.filter(|_| is_whole) {
                rewritten.push_str(&template[copied..name_start]);
                rewritten.push_str(replacement);
                copied = name_end;
            }
        } else {
            position = start + 1;
        }
    }
    if copied == 0 {
        return Cow::Borrowed(template);
    }
    rewritten.push_str(&template[copied..]);
    Cow::Owned(rewritten)
}

/// Bytes of the first word of a tag whose opening delimiter ends at `position`.
fn tag_name(template: &str, position: usize) -> (usize, usize) {
    let rest = &template[position..];
    let rest = rest.strip_prefix(['-', '+']).unwrap_or(rest).trim_start();
    let start = template.len() - rest.len();
    let len = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    (start, start + len)
}

/// Bytes of the value in the `set` tag whose name ends at `start` and which ends at `end`; none where the
/// tag opens a block, or is not whole.
fn assigned_value(template: &str, start: usize, end: usize) -> Option<(usize, usize)> {
    let body = template[start..end].strip_suffix("%}")?;
    let body = body.strip_suffix(['-', '+']).unwrap_or(body);
    let equals = start + body.find('=')?;
    // The target of an assignment is names, dots, commas and brackets; a filter of a block may hold more.
    let is_target = |c: char| c.is_alphanumeric() || c.is_whitespace() || "_.,()".contains(c);
    let value = &template[equals + 1..start + body.len()];
    let is_assignment = template[start..equals].chars().all(is_target) && !value.starts_with('=');
    (is_assignment && !value.trim().is_empty() && !template[start..equals].contains('|'))
        .then_some((equals + 1, start + body.len()))
}

/// Where the tag or expression that is open at `position` is closed: just past `closing`, which counts
/// only outside strings and brackets.
fn expression_end(template: &str, position: usize, closing: &str) -> usize {
    let bytes = template.as_bytes();
    let mut at = position;
    let mut open_brackets = 0_usize;
    while at < bytes.len() {
        if open_brackets == 0 && bytes[at..].starts_with(closing.as_bytes()) {
            return at + closing.len();
        }
        match bytes[at] {
            quote @ (b'"' | b'\'') => {
                at += 1;
                while at < bytes.len() && bytes[at] != quote {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
            }
            b'(' | b'[' | b'{' => open_brackets += 1,
            b')' | b']' | b'}' => open_brackets = open_brackets.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
    bytes.len()
}

/// Where the raw block whose text begins at `position` ends: just past its `endraw` tag.
fn raw_end(template: &str, position: usize) -> usize {
    let mut from = position;
    while let Some(offset) = template[from..].find("{%") {
        let (start, end) = tag_name(template, from + offset + 2);
        if &template[start..end] == "endraw" {
            return expression_end(template, end, "%}");
        }
        from += offset + 2;
    }
    template.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_tags_are_rewritten_with_any_white_space_control() {
        let template = "a{% generation %}b{%- generation -%}c{%+ endgeneration+%}\n{%endgeneration%}d";
        let expected = "a{% with %}b{%- with -%}c{%+ endwith+%}\n{%endwith%}d";
        assert_eq!(rewrite(template), expected);
    }

    #[test]
    fn the_word_elsewhere_stays() {
        for template in [
            "{# {% generation %} #}",
            "{% raw %}{% generation %}{% endraw %}",
            "{%- raw -%}{% generation %}{%- endraw -%}{{ x }}",
            "{{ '{% generation %}' }}",
            r#"{{ "\"{% generation %}" }}"#,
            "{{ {'a': {'b': '}}{% generation %}'}} }}",
            "{% set generation %}{{ generation }}{% endset %}",
            "{% set x | replace('a=b', 'c') %}{% endset %}",
            "{% set x = %}",
            "{% if generation %}{% generation = 2 %}{% endif %}",
            "{ % generation %} generation",
        ] {
            assert_eq!(rewrite(template), template);
        }
    }

    #[test]
    fn assigned_values_pass_the_filter() {
        for (template, expected) in [
            ("{% set x = 1 %}", "{% set x =( 1 )|specdec_bounded %}"),
            ("{%- set ns.x='=%}' -%}", "{%- set ns.x=('=%}' )|specdec_bounded(true) -%}"),
            ("{% set a, b = 1, 2 if c == 3 %}", "{% set a, b =( 1, 2 if c == 3 )|specdec_bounded %}"),
        ] {
            assert_eq!(rewrite(template), expected);
        }
    }

    #[test]
    fn unfinished_templates_do_not_panic() {
        for template in ["{%", "{% generation", "{{ 'é", "{{ '\\", "{#", "{% raw %}{%", "{%-", "{", "{% raw"]
        {
            assert_eq!(rewrite(template), template);
        }
    }
}
