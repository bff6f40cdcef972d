//! The shape of a policy file, as TOML. Unknown keys are errors, so that a misspelt restriction is never ignored.
use serde::Deserialize;
use toml::Spanned;

/// A policy file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileText {
    /// What the file is for. Required, and not used otherwise.
    #[serde(rename = "about")]
    _about: String,
    /// Files to lay underneath, relative to the policy folder. Each is read once.
    #[serde(default)]
    pub include: Vec<Spanned<String>>,
    /// Decisions on system calls that have none yet.
    #[serde(default, rename = "rule")]
    pub rules: Vec<RuleText>,
    /// Decisions that replace one of an included file.
    #[serde(default, rename = "override")]
    pub overrides: Vec<RuleText>,
}

/// A decision on one system call or several.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleText {
    /// The names of the system calls.
    pub calls: Vec<Spanned<String>>,
    /// The answer where no case applies.
    pub answer: Spanned<String>,
    /// Which code needs it, or why nothing gets it.
    pub reason: Spanned<String>,
    /// Answers on certain arguments; the first that applies decides.
    #[serde(default, rename = "case")]
    pub cases: Vec<CaseText>,
}

/// An answer on certain arguments.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaseText {
    /// The answer where all conditions hold.
    pub answer: Spanned<String>,
    /// The conditions.
    pub when: Spanned<Vec<ConditionText>>,
    /// Why, where the rule's reason does not say it.
    #[serde(default)]
    pub reason: String,
}

/// A condition on one argument.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConditionText {
    /// Which argument, counted from 0.
    pub arg: Spanned<u8>,
    /// The argument's name in the manual page.
    pub name: String,
    /// 32 or 64: what the kernel looks at.
    pub bits: Spanned<u8>,
    /// The bits that count.
    pub mask: Option<Spanned<String>>,
    /// Holds when the masked argument is one of these.
    pub is: Option<Vec<Spanned<String>>>,
    /// Holds when the masked argument is none of these.
    pub is_not: Option<Vec<Spanned<String>>>,
}
