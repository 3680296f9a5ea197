//! Who logs in at Cassandra: a user and a password, which may change while connections are open.
//!
//! A connection logs in once, when it is made, with what holds then; those that are open stay so.
//! The password is never printed.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::RwLock;
use scylla::authentication::{
    AuthError, AuthenticatorProvider, AuthenticatorSession, PlainTextAuthenticator,
};

/// User and password, or that there are none. Clones share them: what is set in one holds for all.
#[derive(Clone, Default)]
pub struct Credentials(Arc<RwLock<Option<Login>>>);

#[derive(Clone)]
struct Login {
    user: String,
    password: String,
}

impl Credentials {
    /// This user, with this password.
    pub fn new(user: &str, password: &str) -> Self {
        let credentials = Self::default();
        credentials.set(Some((user, password)));
        credentials
    }

    /// From now on new connections log in as this user, with this password; `None` = with nothing.
    pub fn set(&self, login: Option<(&str, &str)>) {
        let login = login
            .map(|(user, password)| Login { user: user.to_owned(), password: password.to_owned() });
        *self.0.write() = login;
    }

    /// The user; `None` = there is none.
    pub fn user(&self) -> Option<String> {
        self.0.read().as_ref().map(|login| login.user.clone())
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("user", &self.user()).finish_non_exhaustive()
    }
}

#[async_trait]
impl AuthenticatorProvider for Credentials {
    /// Asked for each connection to a node that wants a login.
    async fn start_authentication_session(
        &self,
        authenticator: &str,
    ) -> Result<(Option<Vec<u8>>, Box<dyn AuthenticatorSession>), AuthError> {
        let login = self.0.read().clone();
        let login = login.ok_or_else(|| "it asks for a user and a password".to_owned())?;
        let plain = PlainTextAuthenticator::new(login.user, login.password);
        plain.start_authentication_session(authenticator).await
    }
}
