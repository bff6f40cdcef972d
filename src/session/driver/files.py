"""Files of the work directory, for a server that has no descriptor of it. Names were checked by the server; here no link
is followed, so that the answer is the same as where the server opens the files itself."""

import base64
import errno
import os
import stat

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
COUNTED = 100000


class Refused(Exception):
    """The kind of thing that stands in the way."""


def kind(status):
    mode = status.st_mode
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "folder"
    return "link" if stat.S_ISLNK(mode) else "special"


class Files:
    def __init__(self, root):
        self.root = root
        self.upload = None

    def handle(self, request):
        try:
            return getattr(self, request["act"])(request)
        except Refused as refused:
            return {"what": str(refused)}
        except OSError as error:
            return {"errno": error.errno or errno.EIO}

    def folder(self, names, make=False):
        """A descriptor of the folder with these names below the work directory."""
        here = os.dup(self.root)
        for name in names:
            try:
                if make:
                    try:
                        os.mkdir(name, dir_fd=here)
                    except FileExistsError:
                        pass
                if kind(os.stat(name, dir_fd=here, follow_symlinks=False)) == "link":
                    raise Refused("link")
                below = os.open(name, FOLDER, dir_fd=here)
            finally:
                os.close(here)
            here = below
        return here

    def regular(self, folder, name):
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if kind(status) != "file":
            raise Refused(kind(status))
        if status.st_nlink > 1:
            raise Refused("names")
        return status

    def list(self, request):
        folder = self.folder(request["path"])
        try:
            names = []
            more = False
            with os.scandir(folder) as entries:
                for entry in entries:
                    if len(names) == COUNTED:
                        more = True
                        break
                    names.append(entry.name)
            shown = []
            for name in sorted(names)[: request["most"]]:
                try:
                    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
                except OSError:
                    continue
                size = status.st_size if kind(status) == "file" else 0
                shown.append([name.encode("utf-8", "surrogateescape").decode("utf-8", "replace"), kind(status), size])
            return {"entries": shown, "count": len(names), "more": more}
        finally:
            os.close(folder)

    def read(self, request):
        folder = self.folder(request["path"][:-1])
        try:
            name = request["path"][-1]
            self.regular(folder, name)
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            file = os.open(name, flags, dir_fd=folder)
        finally:
            os.close(folder)
        try:
            status = os.fstat(file)
            if kind(status) != "file":
                raise Refused(kind(status))
            data = os.pread(file, request["length"], min(request["offset"], 1 << 62))
            return {"data": base64.b64encode(data).decode(), "size": status.st_size}
        finally:
            os.close(file)

    def write(self, request):
        """One piece. The first opens a file beside the place, the last puts it there."""
        folder = self.folder(request["path"][:-1], make=True)
        temporary = ".upload-0"
        try:
            if request["first"]:
                self.forget(folder, temporary)
                try:
                    self.regular(folder, request["path"][-1])
                except FileNotFoundError:
                    pass
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
                self.upload = os.open(temporary, flags, 0o644, dir_fd=folder)
            data = base64.b64decode(request["data"])
            try:
                while data:
                    data = data[os.write(self.upload, data) :]
            except OSError:
                self.forget(folder, temporary)
                raise
            if request["last"]:
                os.rename(temporary, request["path"][-1], src_dir_fd=folder, dst_dir_fd=folder)
                self.forget(folder, temporary)
            return {}
        finally:
            os.close(folder)

    def forget(self, folder, temporary):
        if self.upload is not None:
            os.close(self.upload)
            self.upload = None
        try:
            os.unlink(temporary, dir_fd=folder)
        except FileNotFoundError:
            pass

    def remove(self, request):
        folder = self.folder(request["path"][:-1])
        try:
            name = request["path"][-1]
            if kind(os.stat(name, dir_fd=folder, follow_symlinks=False)) == "folder":
                os.rmdir(name, dir_fd=folder)
            else:
                os.unlink(name, dir_fd=folder)
            return {}
        finally:
            os.close(folder)

    def tree(self, request):
        files, count, size, seen = [], 0, 0, 0
        for path, folders, names, folder in os.fwalk(".", dir_fd=self.root):
            seen += len(folders) + len(names)
            if seen > COUNTED:
                return {"entries": files, "count": count, "size": size, "more": True}
            for name in names:
                try:
                    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
                    whole = os.path.normpath(os.path.join(path, name))
                    whole.encode()
                except (OSError, UnicodeEncodeError):
                    continue
                if kind(status) == "file":
                    count += 1
                    size += status.st_size
                    if len(files) < request["most"]:
                        files.append([whole, "file", status.st_size])
        return {"entries": files, "count": count, "size": size, "more": False}
