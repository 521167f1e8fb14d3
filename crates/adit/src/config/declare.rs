//! [`section!`] declares a section of the file as a table of its keys. The field of a key in the
//! settings, its parsing, its comparison and its documents follow from one declaration.

/// Declares the settings of a section: its name and how a reload changes its keys; then, after its
/// comment, each key: field and type, name in the file if it differs from the field's, values,
/// change by a reload if it differs from the section's, and values in the example (`=> []`: the
/// default).
macro_rules! section {
    (
        $(#[doc = $about:literal])*
        $name:ident($section_reload:expr) {
            $(
                $(#[doc = $doc:literal])*
                $field:ident: $type:ty $(= $key:literal)?, $kind:expr $(, $reload:expr)?
                    $(=> [$($example:literal),*])?;
            )*
        }
    ) => {
        $(#[doc = $about])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub(crate) struct $name {
            $( $(#[doc = $doc])* pub $field: $type, )*
        }

        impl $crate::config::table::Section for $name {
            const ABOUT: &'static [&'static str] = &[$($about),*];

            fn keys() -> Vec<$crate::config::described::KeyInfo> {
                vec![$({
                    let examples: &[&'static [&'static str]] = &[$(&[$($example),*])?];
                    let key: &dyn $crate::config::keys::Key<$type> = &$kind;
                    let (takes, absent) = key.describe();
                    $crate::config::described::KeyInfo {
                        name: [$($key,)? stringify!($field)][0],
                        about: &[$($doc),*],
                        takes,
                        absent,
                        on_reload: [$($reload,)? $section_reload][0],
                        example: examples.first().copied(),
                    }
                }),*]
            }

            fn read(section: &mut $crate::config::section::ConfigSection<'_>) -> Self {
                Self { $( $field: $crate::config::keys::Key::read(
                    &$kind, section, [$($key,)? stringify!($field)][0],
                ), )* }
            }

            fn compare(
                &self,
                new: &Self,
                path: &str,
                found: &mut $crate::config::comparison::ConfigComparison,
            ) {
                $({
                    let key = $crate::config::comparison::ComparedKey::new(
                        path, [$($key,)? stringify!($field)][0], [$($reload,)? $section_reload][0],
                    );
                    $crate::config::keys::Key::compare(
                        &$kind, key, &self.$field, &new.$field, found,
                    );
                })*
            }

            fn words(&self) -> Vec<String> {
                let all = [$( (
                    [$($key,)? stringify!($field)][0], $crate::config::keys::Key::show(&$kind, &self.$field),
                ) ),*];
                let set = all.into_iter().filter_map(|(key, value)| Some((key, value?)));
                set.map(|(key, value)| format!("{key} {value}")).collect()
            }
        }
    };
}
pub(super) use section;
