"""Who may ask, and from where: the right that each path needs, browsers' logins, pages of other sites."""
