//! The table of all message types. Spec: TS 29.244 §7.3, table 7.3-1.

use core::fmt;

/// Type of a message: the number in its second octet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct MessageType(pub u8);

/// The parties or object that a message is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageRelation {
    /// Two nodes: the header has no SEID.
    Node,
    /// One PFCP session: the header has a SEID.
    Session,
}

/// A row of the table of message types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageInfo {
    /// The number.
    pub message_type: MessageType,
    /// The name in the specification.
    pub name: &'static str,
    /// The clause of TS 29.244 that lists the IEs of the message.
    pub clause: &'static str,
    /// Whether the message is about two nodes or about a session.
    pub relation: MessageRelation,
    /// True for requests, false for responses.
    pub is_request: bool,
}

macro_rules! message_table {
    ($( $number:literal $const:ident $name:literal $clause:literal $relation:ident $request:literal; )*) => {
        impl MessageType {
            $(
                #[doc = $name]
                pub const $const: Self = Self($number);
            )*
        }

        /// Every message type of Release 17, ascending.
        pub static MESSAGE_TABLE: &[MessageInfo] = &[ $(
            MessageInfo {
                message_type: MessageType($number),
                name: $name,
                clause: $clause,
                relation: MessageRelation::$relation,
                is_request: $request,
            },
        )* ];
    };
}

message_table! {
    1 HEARTBEAT_REQUEST "PFCP Heartbeat Request" "7.4.2.1" Node true;
    2 HEARTBEAT_RESPONSE "PFCP Heartbeat Response" "7.4.2.2" Node false;
    3 PFD_MANAGEMENT_REQUEST "PFCP PFD Management Request" "7.4.3.1" Node true;
    4 PFD_MANAGEMENT_RESPONSE "PFCP PFD Management Response" "7.4.3.2" Node false;
    5 ASSOCIATION_SETUP_REQUEST "PFCP Association Setup Request" "7.4.4.1" Node true;
    6 ASSOCIATION_SETUP_RESPONSE "PFCP Association Setup Response" "7.4.4.2" Node false;
    7 ASSOCIATION_UPDATE_REQUEST "PFCP Association Update Request" "7.4.4.3" Node true;
    8 ASSOCIATION_UPDATE_RESPONSE "PFCP Association Update Response" "7.4.4.4" Node false;
    9 ASSOCIATION_RELEASE_REQUEST "PFCP Association Release Request" "7.4.4.5" Node true;
    10 ASSOCIATION_RELEASE_RESPONSE "PFCP Association Release Response" "7.4.4.6" Node false;
    11 VERSION_NOT_SUPPORTED_RESPONSE "PFCP Version Not Supported Response" "7.4.4.7" Node false;
    12 NODE_REPORT_REQUEST "PFCP Node Report Request" "7.4.5.1" Node true;
    13 NODE_REPORT_RESPONSE "PFCP Node Report Response" "7.4.5.2" Node false;
    14 SESSION_SET_DELETION_REQUEST "PFCP Session Set Deletion Request" "7.4.6.1" Node true;
    15 SESSION_SET_DELETION_RESPONSE "PFCP Session Set Deletion Response" "7.4.6.2" Node false;
    16 SESSION_SET_MODIFICATION_REQUEST "PFCP Session Set Modification Request" "7.4.7.1" Node true;
    17 SESSION_SET_MODIFICATION_RESPONSE "PFCP Session Set Modification Response" "7.4.7.2" Node false;
    50 SESSION_ESTABLISHMENT_REQUEST "PFCP Session Establishment Request" "7.5.2" Session true;
    51 SESSION_ESTABLISHMENT_RESPONSE "PFCP Session Establishment Response" "7.5.3" Session false;
    52 SESSION_MODIFICATION_REQUEST "PFCP Session Modification Request" "7.5.4" Session true;
    53 SESSION_MODIFICATION_RESPONSE "PFCP Session Modification Response" "7.5.5" Session false;
    54 SESSION_DELETION_REQUEST "PFCP Session Deletion Request" "7.5.6" Session true;
    55 SESSION_DELETION_RESPONSE "PFCP Session Deletion Response" "7.5.7" Session false;
    56 SESSION_REPORT_REQUEST "PFCP Session Report Request" "7.5.8" Session true;
    57 SESSION_REPORT_RESPONSE "PFCP Session Report Response" "7.5.9" Session false;
}

impl MessageType {
    /// Returns the row of the table, or `None` for a type that Release 17 does not define.
    #[must_use]
    pub fn info(self) -> Option<&'static MessageInfo> {
        let row = MESSAGE_TABLE.binary_search_by_key(&self, |info| info.message_type).ok()?;
        MESSAGE_TABLE.get(row)
    }

    /// Returns the name in the specification, or `"unknown message"` outside the table.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.info().map_or("unknown message", |info| info.name)
    }

    /// True for types whose header has a SEID: 50 to 99. Spec: TS 29.244 §7.3.
    #[must_use]
    pub const fn is_session_related(self) -> bool {
        self.0 >= 50 && self.0 <= 99
    }

    /// True for requests that are in the table.
    #[must_use]
    pub fn is_request(self) -> bool {
        self.info().is_some_and(|info| info.is_request)
    }

    /// Returns the type of the response to a request; `None` if this is no request.
    #[must_use]
    pub fn response(self) -> Option<Self> {
        self.is_request().then_some(Self(self.0 + 1))
    }
}

impl fmt::Display for MessageType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name(), self.0)
    }
}
