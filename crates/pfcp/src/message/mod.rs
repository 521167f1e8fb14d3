//! Messages: the table of types, the typed bodies, and an enum of all bodies.

mod node;
mod session;

use adit_types::Seid;

use crate::header::RawMessage;
use crate::ie::DecodeError;
use crate::writer::{NoRoom, PfcpWriter};

pub use crate::body::MessageBody;
pub use crate::message_type::{MESSAGE_TABLE, MessageInfo, MessageRelation, MessageType};
pub use node::{
    AssociationReleaseRequest, AssociationReleaseResponse, AssociationSetupRequest,
    AssociationSetupResponse, AssociationUpdateRequest, AssociationUpdateResponse,
    HeartbeatRequest, HeartbeatResponse, NodeReportRequest, NodeReportResponse,
    PfdManagementRequest, PfdManagementResponse, SessionSetDeletionRequest,
    SessionSetDeletionResponse, SessionSetModificationRequest, SessionSetModificationResponse,
    VersionNotSupportedResponse,
};
pub use session::{
    SessionDeletionRequest, SessionDeletionResponse, SessionEstablishmentRequest,
    SessionEstablishmentResponse, SessionModificationRequest, SessionModificationResponse,
    SessionReportRequest, SessionReportResponse,
};

/// Encodes one message with its header into `buf`, and returns its length in octets.
///
/// # Errors
/// [`NoRoom`] if `buf` is too small; its contents are then unspecified.
pub fn encode<'a, M: MessageBody<'a>>(
    buf: &mut [u8],
    seid: Option<Seid>,
    sequence: u32,
    body: &M,
) -> Result<usize, NoRoom> {
    PfcpWriter::new(buf).message(M::TYPE, seid, sequence, |w| body.encode_body(w))
}

macro_rules! messages {
    ($( $name:ident, )*) => {
        /// A decoded message body.
        #[derive(Debug, Clone, Copy, PartialEq)]
        #[allow(clippy::large_enum_variant, reason = "nothing here may allocate")]
        pub enum Message<'a> {
            $( #[doc = concat!("[`", stringify!($name), "`]")] $name($name<'a>), )*
            /// A message type that Release 17 does not define or that has no typed form here. The
            /// body is in the [`RawMessage`].
            Unsupported(MessageType),
        }

        impl<'a> Message<'a> {
            /// Decodes the body of a message by its type.
            ///
            /// # Errors
            /// Returns the first defect, as [`MessageBody::decode_body`] does.
            pub fn decode(raw: &RawMessage<'a>) -> Result<Self, DecodeError> {
                match raw.header.message_type {
                    $( <$name<'_> as MessageBody<'_>>::TYPE =>
                        $name::decode_body(raw.body).map(Self::$name), )*
                    other => Ok(Self::Unsupported(other)),
                }
            }

            /// Appends the IEs of the message; none for an unsupported type.
            ///
            /// # Errors
            /// [`NoRoom`] if the buffer is full.
            pub fn encode_body(&self, w: &mut PfcpWriter<'_>) -> Result<(), NoRoom> {
                match self {
                    $( Self::$name(message) => message.encode_body(w), )*
                    Self::Unsupported(_) => Ok(()),
                }
            }

            /// Returns the type of the message.
            #[must_use]
            pub fn message_type(&self) -> MessageType {
                match self {
                    $( Self::$name(_) => <$name<'_> as MessageBody<'_>>::TYPE, )*
                    Self::Unsupported(other) => *other,
                }
            }
        }

        /// Returns the possible members of a message; empty for types without a typed form here.
        #[must_use]
        pub fn members(message_type: MessageType) -> &'static [crate::body::Member] {
            match message_type {
                $( <$name<'_> as MessageBody<'_>>::TYPE => $name::MEMBERS, )*
                _ => &[],
            }
        }
    };
}

messages! {
    HeartbeatRequest,
    HeartbeatResponse,
    PfdManagementRequest,
    PfdManagementResponse,
    AssociationSetupRequest,
    AssociationSetupResponse,
    AssociationUpdateRequest,
    AssociationUpdateResponse,
    AssociationReleaseRequest,
    AssociationReleaseResponse,
    VersionNotSupportedResponse,
    NodeReportRequest,
    NodeReportResponse,
    SessionSetDeletionRequest,
    SessionSetDeletionResponse,
    SessionSetModificationRequest,
    SessionSetModificationResponse,
    SessionEstablishmentRequest,
    SessionEstablishmentResponse,
    SessionModificationRequest,
    SessionModificationResponse,
    SessionDeletionRequest,
    SessionDeletionResponse,
    SessionReportRequest,
    SessionReportResponse,
}
