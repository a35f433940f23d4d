"""The plain client of a bucket, and what a mount of it has open."""

import two_hosts_model as model


class Copy:
    """A file as a mount has it open. `may_be`: the bytes that it may have; more than one where another host replaced the object
    before anything of it had been seen."""

    def __init__(self, host, path, data, version):
        self.host, self.may_be, self.version = host, [data], version
        self.last_path, self.path = None, path
        self.dirty = self.lost = self.seen = False
        self.later = []  # what has been at the name since it was opened
        self.newer = None  # what this host opened under the name later
        self.twin = None  # which it may be one with: that had its bytes when they were read
        self.whole = False  # all of it is here: nothing of the bucket's object is needed for it
        self.has_lost_name = False  # its object was made by another host first
        self.mode = 0o644

    def is_published(self, data, version):
        """Its bytes are the object that is there now."""
        self.may_be, self.version = [data], version
        self.dirty = self.lost = False

    @property
    def path(self):
        """None: it has lost its name, which was last_path."""
        return self._path

    @path.setter
    def path(self, path):
        self._path, self.last_path = path, path if path is not None else self.last_path

    def __str__(self):
        return f"{self.path}{' dirty' if self.dirty else ''}{' lost' if self.lost else ''}"


class Client:
    """The plain client; also for a replay, below a folder."""

    def __init__(self, client, bucket):
        self.client, self.bucket = client, bucket
        self.name, self.root, self.is_mount = "P", None, False

    def key(self, folder, path):
        return f"{folder}/{path}" if folder else path

    def __call__(self, folder, verb, words):
        at = self.key(folder, words[0]) if words else ""
        if verb == "begin":
            self.put(folder + "/", b"")
        elif verb == "mkdir":
            self.put(at + "/", b"")
        elif verb == "put":
            self.put(at, model.piece(int(words[4]), 0, int(words[1])))
        elif verb == "delete":
            self.client.delete_object(Bucket=self.bucket, Key=at)
        elif verb == "copy":
            self.copy(at, self.key(folder, words[1]))
        elif verb == "get":
            found = self.body(at)
            return None if found is None else model.explain(found)
        return None

    def put(self, key, body):
        self.client.put_object(Bucket=self.bucket, Key=key, Body=body)

    def copy(self, old, new):
        self.client.copy_object(Bucket=self.bucket, Key=new, CopySource={"Bucket": self.bucket, "Key": old})

    def head(self, key):
        return self.client.head_object(Bucket=self.bucket, Key=key)

    def body(self, key):
        try:
            return self.client.get_object(Bucket=self.bucket, Key=key)["Body"].read()
        except self.client.exceptions.NoSuchKey:
            return None

    def keys(self, prefix=""):
        found = []
        for page in self.client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix):
            found += [one["Key"] for one in page.get("Contents", [])]
        return found
