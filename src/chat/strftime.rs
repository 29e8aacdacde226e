//! Python's `strftime` for the date that some templates put into the system message.
//!
//! The locale is C, as in a program that never sets one. Invariant: any format gives text; a directive
//! that is not known is printed as it is written, which is what glibc does. Where the time comes from is
//! `environment`'s `Clock`.

use jiff::civil::DateTime;

const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// `moment.strftime(format)` for a `datetime` without a time zone, so `%z` and `%Z` are empty.
pub(super) fn strftime(format: &str, moment: DateTime) -> String {
    let mut text = String::new();
    let mut rest = format;
    while let Some(at) = rest.find('%') {
        text.push_str(&rest[..at]);
        let directive = &rest[at + 1..];
        let (flag, after_flag) = match directive.chars().next() {
            Some(flag @ ('-' | '_' | '0' | '^' | '#')) => (Some(flag), &directive[1..]),
            _ => (None, directive),
        };
        let Some(letter) = after_flag.chars().next() else {
            text.push_str(&rest[at..]);
            return text;
        };
        rest = &after_flag[letter.len_utf8()..];
        if let Some(expanded) = expand(letter, flag, moment) {
            text.push_str(&expanded);
        } else {
            text.push('%');
            text.extend(flag);
            text.push(letter);
        }
    }
    text.push_str(rest);
    text
}

fn expand(letter: char, flag: Option<char>, moment: DateTime) -> Option<String> {
    let weekday = i64::from(moment.weekday().to_sunday_zero_offset());
    let month = usize::from(moment.month().unsigned_abs()) - 1;
    let weekday_name = WEEKDAYS[usize::try_from(weekday).unwrap_or(0)];
    let hour_of_twelve = i64::from((moment.hour() + 11) % 12 + 1);
    let day_of_year = i64::from(moment.day_of_year());
    let iso = moment.date().iso_week_date();
    let composed = |format: &str| strftime(format, moment);
    let number = |value: i64, width: usize, pad: char| match flag {
        Some('-') => value.to_string(),
        Some('_') => format!("{value:>width$}"),
        Some('0') => format!("{value:0>width$}"),
        _ if pad == '0' => format!("{value:0>width$}"),
        _ => format!("{value:>width$}"),
    };
    let year = i64::from(moment.year());
    let text = match letter {
        'a' => weekday_name[..3].to_owned(),
        'A' => weekday_name.to_owned(),
        'b' | 'h' => MONTHS[month][..3].to_owned(),
        'B' => MONTHS[month].to_owned(),
        'c' => composed("%a %b %e %H:%M:%S %Y"),
        'C' => number(year.div_euclid(100), 2, '0'),
        'd' => number(i64::from(moment.day()), 2, '0'),
        'D' | 'x' => composed("%m/%d/%y"),
        'e' => number(i64::from(moment.day()), 2, ' '),
        'f' => format!("{:06}", moment.subsec_nanosecond() / 1000),
        'F' => composed("%Y-%m-%d"),
        'g' => number(i64::from(iso.year()).rem_euclid(100), 2, '0'),
        'G' => number(i64::from(iso.year()), 1, '0'),
        'H' => number(i64::from(moment.hour()), 2, '0'),
        'I' => number(hour_of_twelve, 2, '0'),
        'j' => number(day_of_year, 3, '0'),
        'k' => number(i64::from(moment.hour()), 2, ' '),
        'l' => number(hour_of_twelve, 2, ' '),
        'm' => number(i64::from(moment.month()), 2, '0'),
        'M' => number(i64::from(moment.minute()), 2, '0'),
        'n' => "\n".to_owned(),
        'p' => if moment.hour() < 12 { "AM" } else { "PM" }.to_owned(),
        'P' => if moment.hour() < 12 { "am" } else { "pm" }.to_owned(),
        'r' => composed("%I:%M:%S %p"),
        'R' => composed("%H:%M"),
        'S' => number(i64::from(moment.second()), 2, '0'),
        't' => "\t".to_owned(),
        'T' | 'X' => composed("%H:%M:%S"),
        'u' => number((weekday + 6) % 7 + 1, 1, '0'),
        'U' => number((day_of_year + 6 - weekday) / 7, 2, '0'),
        'V' => number(i64::from(iso.week()), 2, '0'),
        'w' => number(weekday, 1, '0'),
        'W' => number((day_of_year + 6 - (weekday + 6) % 7) / 7, 2, '0'),
        'y' => number(year.rem_euclid(100), 2, '0'),
        'Y' => number(year, 1, '0'),
        'z' | 'Z' => String::new(),
        '%' => "%".to_owned(),
        _ => return None,
    };
    Some(if flag == Some('^') { text.to_uppercase() } else { text })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directives_expand_as_in_python() {
        let moment = jiff::civil::date(2024, 7, 4).at(15, 5, 9, 12_000);
        for (format, expected) in [
            ("%d %b %Y", "04 Jul 2024"),
            ("%Y-%m-%d", "2024-07-04"),
            ("%A, %B %-d, %Y", "Thursday, July 4, 2024"),
            ("%e|%_m|%I:%M %p|%H:%M:%S|%f", " 4| 7|03:05 PM|15:05:09|000012"),
            ("%j %U %W %V %u %w %G %y", "186 26 27 27 4 4 2024 24"),
            ("%^a 100%% %Q %", "THU 100% %Q %"),
            ("%c", "Thu Jul  4 15:05:09 2024"),
        ] {
            assert_eq!(strftime(format, moment), expected, "{format}");
        }
    }
}
