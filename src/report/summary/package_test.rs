//! How a claim about Python packages was put to the test, in a sentence. The main function is [`words`].

use crate::model::claim::{BoundaryAsk, PackageAction, PackageTest};

/// `test on Python 3.11: pip, asked for numba-cuda==0.30.4, must choose numpy>=2.0,<2.5`.
pub(super) fn words(test: &PackageTest) -> String {
    let python = match test.python.as_deref() {
        None => String::new(),
        Some("host") => " on the machine's own Python".into(),
        Some(version) => format!(" on Python {version}"),
    };
    let (action, packages) = (&test.action, test.packages.join(", "));
    let with = if packages.is_empty() { String::new() } else { format!("with {packages}, ") };
    if let Some(BoundaryAsk { package, range, .. }) = &test.boundary {
        let said = test.fails_with.as_ref().map_or(String::new(), |said| format!(" saying `{said}`"));
        return format!("test{python}: {package}{range}, {with}by {action}; bad is one that fails{said}");
    }
    let or_fail = |success: String| match &test.fails_with {
        Some(said) => format!("must fail saying `{said}`"),
        None => success,
    };
    match action {
        PackageAction::Resolve(gives) if gives.is_empty() => {
            format!("test{python}: pip, asked for {packages}, {}", or_fail("must find a choice".into()))
        }
        PackageAction::Resolve(gives) => {
            format!("test{python}: pip, asked for {packages}, {}", or_fail(format!("must choose {}", gives.join(", "))))
        }
        PackageAction::Import(_) | PackageAction::CompileNumba(_) => {
            format!("test{python}: {with}{action} {}", or_fail("must succeed".into()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::arch::Arch;

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
            "test on Python 3.11: pip, asked for a==1, b, must choose c<2"
        );
        assert_eq!(words(&test(resolve(&[]), None, Some("x"))), "test: pip, asked for a==1, b, must fail saying `x`");
        assert_eq!(
            words(&test(PackageAction::Import("m".into()), Some("host"), None)),
            "test on the machine's own Python: with a==1, b, import m must succeed"
        );
        let boundary = BoundaryAsk { package: "numpy".into(), range: ">=2".into(), last_good: None, first_bad: None };
        let bounded = PackageTest { boundary: Some(boundary), ..test(compile(), None, Some("row_stack")) };
        assert_eq!(
            words(&bounded),
            "test: numpy>=2, with a==1, b, by numba.cuda.compile for compute capability 7.5; bad is one that fails \
             saying `row_stack`"
        );
    }
}
