//! Macros for the three kinds of schema on the wire: a *message* is a map of named fields, a *row* is a list in a
//! fixed order, and *words* are a set of names that newer versions may extend.

/// A map of named fields. Unknown fields are ignored, missing ones take their default (`= value`, or that of the
/// type), and values that equal the default are not written. `new | old` reads both names and writes the new one.
macro_rules! message {
    ($(#[$doc:meta])* pub struct $name:ident {
        $( $(#[$field_doc:meta])* $field:ident $(| $old:ident)? : $kind:ty $(= $default:expr)? ),* $(,)?
    }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $(
                $(#[$field_doc])*
                #[doc = concat!("\n\nThe field `", stringify!($field), "` of the message.")]
                pub $field: $kind,
            )*
        }

        impl $crate::field::Field for $name {
            fn absent() -> Option<$name> {
                None
            }

            fn is_absent(&self) -> bool {
                false
            }

            fn pack(&self, out: &mut ::bytes::BytesMut) {
                let present = 0 $( + usize::from(!$crate::schema::left_out!(self.$field, $kind $(, $default)?)) )*;
                $crate::pack::map(out, present);
                $(
                    if !$crate::schema::left_out!(self.$field, $kind $(, $default)?) {
                        $crate::pack::text(out, stringify!($field));
                        $crate::field::Field::pack(&self.$field, out);
                    }
                )*
            }

            #[allow(unused_mut, clippy::match_single_binding)]
            fn unpack(from: &mut $crate::reader::Reader<'_>) -> Result<$name, $crate::error::Problem> {
                $( let mut $field: Option<$kind> = None; )*
                for _ in 0..from.map()? {
                    match from.text()? {
                        $(
                            stringify!($field) $(| stringify!($old))? => if !from.take_nil() {
                                let value = <$kind as $crate::field::Field>::unpack(from);
                                $field = Some(value.map_err(|problem| problem.in_field(stringify!($field)))?);
                            },
                        )*
                        _ => from.skip()?,
                    }
                }
                Ok($name {
                    $( $field: match $field {
                        Some(value) => value,
                        None => $crate::schema::absent!($field, $kind $(, $default)?),
                    }, )*
                })
            }
        }

        $crate::schema::for_people!($name { $( $field : $kind $(= $default)? ),* });
    };
}

/// A list in a fixed order, for what comes by the thousand. Trailing values that equal their defaults are not written;
/// missing ones take them; additional ones are ignored.
macro_rules! row {
    ($(#[$doc:meta])* pub struct $name:ident {
        $( $(#[$field_doc:meta])* $field:ident : $kind:ty $(= $default:expr)? ),* $(,)?
    }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $(
                $(#[$field_doc])*
                #[doc = concat!("\n\nThe entry `", stringify!($field), "` of the list.")]
                pub $field: $kind,
            )*
        }

        impl $crate::field::Field for $name {
            fn absent() -> Option<$name> {
                None
            }

            fn is_absent(&self) -> bool {
                false
            }

            #[inline]
            fn pack(&self, out: &mut ::bytes::BytesMut) {
                let mut position = 0;
                let mut length = 0;
                $(
                    position += 1;
                    if !$crate::schema::left_out!(self.$field, $kind $(, $default)?) {
                        length = position;
                    }
                )*
                $crate::pack::array(out, length);
                position = 0;
                $(
                    position += 1;
                    if position > length {
                        return;
                    }
                    $crate::field::Field::pack(&self.$field, out);
                )*
            }

            #[inline]
            fn unpack(from: &mut $crate::reader::Reader<'_>) -> Result<$name, $crate::error::Problem> {
                let mut left = from.array()?;
                $(
                    let $field: $kind = if left > 0 && { left -= 1; !from.take_nil() } {
                        let value = <$kind as $crate::field::Field>::unpack(from);
                        value.map_err(|problem| problem.in_field(stringify!($field)))?
                    } else {
                        $crate::schema::absent!($field, $kind $(, $default)?)
                    };
                )*
                for _ in 0..left {
                    from.skip()?;
                }
                Ok($name { $( $field, )* })
            }
        }

        $crate::schema::for_people!($name { $( $field : $kind $(= $default)? ),* });
    };
}

/// A set of names. An unknown name of a newer peer is kept as it is: code that must understand it can refuse it by
/// name, and code that only shows it can show it.
macro_rules! words {
    ($(#[$doc:meta])* pub enum $name:ident {
        $( $(#[$word_doc:meta])* $word:ident = $text:literal ),* $(,)?
    }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $(
                $(#[$word_doc])*
                #[doc = concat!("\n\nSent as `", $text, "`.")]
                $word,
            )*
            /// A word that this version does not know.
            Other(Box<str>),
        }

        impl $name {
            /// Every word that this version knows.
            pub const KNOWN: &[$name] = &[ $( $name::$word ),* ];

            /// The word as it is sent.
            pub fn as_str(&self) -> &str {
                match self {
                    $( $name::$word => $text, )*
                    $name::Other(text) => text,
                }
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> $name {
                match text {
                    $( $text => $name::$word, )*
                    other => $name::Other(other.into()),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl $crate::field::Field for $name {
            fn absent() -> Option<$name> {
                None
            }

            fn is_absent(&self) -> bool {
                false
            }

            fn pack(&self, out: &mut ::bytes::BytesMut) {
                $crate::pack::text(out, self.as_str());
            }

            fn unpack(from: &mut $crate::reader::Reader<'_>) -> Result<$name, $crate::error::Problem> {
                from.text().map($name::from)
            }
        }
    };
}

/// The kinds of messages in one direction: `[number, kind, {fields}]`. An unknown kind keeps its name.
/// `new | old` reads both names and writes the new one.
macro_rules! kinds {
    ($(#[$doc:meta])* pub enum $name:ident {
        $( $(#[$kind_doc:meta])* $kind:ident $(($fields:ty))? = $text:literal $(| $old:literal)? ),* $(,)?
    }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub enum $name {
            $(
                $(#[$kind_doc])*
                #[doc = concat!("\n\nSent as `", $text, "`.")]
                $kind $(($fields))?,
            )*
            /// A kind that this version does not know.
            #[allow(missing_docs, reason = "the field is the name of the kind")]
            Unknown { kind: Box<str> },
        }

        impl $name {
            /// Every kind that this version knows.
            pub const KNOWN: &[&str] = &[ $( $text ),* ];

            /// The name of the kind as it is sent.
            pub fn kind(&self) -> &str {
                match self {
                    $( $crate::schema::variant!($name, $kind, _fields $(, $fields)?) => $text, )*
                    $name::Unknown { kind } => kind,
                }
            }

            pub(crate) fn pack_fields(&self, out: &mut ::bytes::BytesMut) {
                match self {
                    $( $crate::schema::variant!($name, $kind, fields $(, $fields)?) =>
                        $crate::schema::pack_variant!(out, fields $(, $fields)?), )*
                    $name::Unknown { .. } => $crate::pack::map(out, 0),
                }
            }

            pub(crate) fn unpack_fields(
                kind: &str,
                from: &mut $crate::reader::Reader<'_>,
            ) -> Result<$name, $crate::error::Problem> {
                match kind {
                    $( $text $(| $old)? => $crate::schema::unpack_variant!($name, $kind, from $(, $fields)?), )*
                    _ => {
                        from.skip()?;
                        Ok($name::Unknown { kind: kind.into() })
                    }
                }
            }
        }
    };
}

/// Converts a value to JSON and the like for people: an object without absent fields.
macro_rules! for_people {
    ($name:ident { $( $field:ident : $kind:ty $(= $default:expr)? ),* }) => {
        impl serde::Serialize for $name {
            #[allow(unused_mut)]
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let mut map = serializer.serialize_map(None)?;
                $(
                    if !$crate::schema::left_out!(self.$field, $kind $(, $default)?) {
                        serde::ser::SerializeMap::serialize_entry(&mut map, stringify!($field), &self.$field)?;
                    }
                )*
                serde::ser::SerializeMap::end(map)
            }
        }
    };
}

macro_rules! left_out {
    ($value:expr, $kind:ty) => {
        $crate::field::Field::is_absent(&$value)
    };
    ($value:expr, $kind:ty, $default:expr) => {
        $value == $default
    };
}

macro_rules! absent {
    ($field:ident, $kind:ty) => {
        match <$kind as $crate::field::Field>::absent() {
            Some(value) => value,
            None => {
                return Err($crate::error::Problem::from($crate::error::ValueFault::Missing)
                    .in_field(stringify!($field)));
            }
        }
    };
    ($field:ident, $kind:ty, $default:expr) => {
        $default
    };
}

macro_rules! variant {
    ($name:ident, $kind:ident, $bound:ident) => {
        $name::$kind
    };
    ($name:ident, $kind:ident, $bound:ident, $fields:ty) => {
        $name::$kind($bound)
    };
}

macro_rules! pack_variant {
    ($out:ident, $bound:ident) => {
        $crate::pack::map($out, 0)
    };
    ($out:ident, $bound:ident, $fields:ty) => {
        $crate::field::Field::pack($bound, $out)
    };
}

macro_rules! unpack_variant {
    ($name:ident, $kind:ident, $from:ident) => {{
        $from.skip()?;
        Ok($name::$kind)
    }};
    ($name:ident, $kind:ident, $from:ident, $fields:ty) => {
        <$fields as $crate::field::Field>::unpack($from).map($name::$kind)
    };
}

pub(crate) use {
    absent, for_people, kinds, left_out, message, pack_variant, row, unpack_variant, variant, words,
};
