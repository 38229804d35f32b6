"""Who talks with whom: clients with one server, with edges of a tree, with several servers, or with one another."""
