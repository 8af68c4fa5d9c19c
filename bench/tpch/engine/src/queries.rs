//! The queries: the specification's text with its validation parameters.

const QUERIES: [&str; 22] = [
    include_str!("../queries/q1.sql"),
    include_str!("../queries/q2.sql"),
    include_str!("../queries/q3.sql"),
    include_str!("../queries/q4.sql"),
    include_str!("../queries/q5.sql"),
    include_str!("../queries/q6.sql"),
    include_str!("../queries/q7.sql"),
    include_str!("../queries/q8.sql"),
    include_str!("../queries/q9.sql"),
    include_str!("../queries/q10.sql"),
    include_str!("../queries/q11.sql"),
    include_str!("../queries/q12.sql"),
    include_str!("../queries/q13.sql"),
    include_str!("../queries/q14.sql"),
    include_str!("../queries/q15.sql"),
    include_str!("../queries/q16.sql"),
    include_str!("../queries/q17.sql"),
    include_str!("../queries/q18.sql"),
    include_str!("../queries/q19.sql"),
    include_str!("../queries/q20.sql"),
    include_str!("../queries/q21.sql"),
    include_str!("../queries/q22.sql"),
];

/// A query, 1 to 22, for data of a scale factor; `None` for any other number.
pub fn text(query: u32, scale: f64) -> Option<String> {
    let text = QUERIES.get(usize::try_from(query).ok()?.checked_sub(1)?)?;
    // Only Q11 has it: the specification divides its fraction by the scale factor.
    Some(text.replace(":fraction", &format!("{:.10}", 0.0001 / scale)))
}
