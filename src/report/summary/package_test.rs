//! How a claim about Python packages was put to the test, in a sentence. The main function is [`words`].

use crate::model::claim::{PackageAction, PackageTest};

/// `asked of pip for Python 3.11: numba-cuda==0.30.4; it must choose numpy>=2.0,<2.5`.
pub(super) fn words(test: &PackageTest) -> String {
    let python = match test.python.as_deref() {
        None => String::new(),
        Some("host") => " for the machine's own Python".into(),
        Some(version) => format!(" for Python {version}"),
    };
    let packages = if test.packages.is_empty() { "what is there".to_owned() } else { test.packages.join(", ") };
    if let Some(boundary) = &test.boundary {
        let with = if test.packages.is_empty() { String::new() } else { format!(" with {packages}") };
        let bad = match &test.fails_with {
            Some(said) => format!("bad is one that fails saying `{said}`"),
            None => "bad is one that fails".into(),
        };
        let action = &test.action;
        return format!("tried{python}: {}{}{with}, by {action}; {bad}", boundary.package, boundary.range);
    }
    let how = |success: String| match &test.fails_with {
        Some(said) => format!("must fail saying `{said}`"),
        None => success,
    };
    match &test.action {
        PackageAction::Resolve(gives) => {
            let choose = if gives.is_empty() {
                "must find a choice".into()
            } else {
                format!("must choose {}", gives.join(", "))
            };
            format!("asked of pip{python}: {packages}; it {}", how(choose))
        }
        action @ (PackageAction::Import(_) | PackageAction::CompileNumba(_)) => {
            format!("installed{python}: {packages}; {action} {}", how("must succeed".into()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::arch::Arch;
    use crate::model::claim::BoundaryAsk;

    #[test]
    fn each_test_is_a_sentence() {
        let test = |action: PackageAction, python: Option<&str>, fails_with: Option<&str>| {
            let (python, fails_with) = (python.map(Into::into), fails_with.map(Into::into));
            PackageTest { python, packages: vec!["a==1".into(), "b".into()], action, fails_with, boundary: None }
        };
        let resolve = |gives: &[&str]| PackageAction::Resolve(gives.iter().map(ToString::to_string).collect());
        let compile = || PackageAction::CompileNumba(Arch::new(7, 5));
        assert_eq!(
            words(&test(resolve(&["c<2"]), Some("3.11"), None)),
            "asked of pip for Python 3.11: a==1, b; it must choose c<2"
        );
        assert_eq!(words(&test(resolve(&[]), None, Some("x"))), "asked of pip: a==1, b; it must fail saying `x`");
        assert_eq!(
            words(&test(PackageAction::Import("m".into()), Some("host"), None)),
            "installed for the machine's own Python: a==1, b; import m must succeed"
        );
        let boundary = BoundaryAsk { package: "numpy".into(), range: ">=2".into(), last_good: None, first_bad: None };
        let bounded = PackageTest { boundary: Some(boundary), ..test(compile(), None, Some("row_stack")) };
        assert_eq!(
            words(&bounded),
            "tried: numpy>=2 with a==1, b, by numba.cuda.compile for compute capability 7.5; bad is one that fails \
             saying `row_stack`"
        );
    }
}
