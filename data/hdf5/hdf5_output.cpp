#include "data/hdf5/hdf5_output.hpp"

namespace cohort {
namespace {

Hdf5Handle create_hdf5_file(const std::string& path, std::uint64_t user_block) {
    const Hdf5Handle create = hdf5_own(H5Pcreate(H5P_FILE_CREATE), path, "cannot prepare the file");
    hdf5_check(H5Pset_userblock(create.id(), user_block), path, "cannot prepare the file");
    const Hdf5Handle access = hdf5_own(H5Pcreate(H5P_FILE_ACCESS), path, "cannot prepare the file");
    // Without HDF5's lock: a process that is forked during the writing would keep it, and the
    // finished file could not be opened as long as that process lives. No other program opens the
    // temporary file.
    hdf5_check(H5Pset_file_locking(access.id(), 0, 1), path, "cannot prepare the file");
    // From 1.10 on HDF5's own structures carry checksums: damage there is found, not followed.
    hdf5_check(H5Pset_libver_bounds(access.id(), H5F_LIBVER_V110, H5F_LIBVER_V110), path,
               "cannot prepare the file");
    return hdf5_own(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, create.id(), access.id()), path,
                    "cannot create the file");
}

/// Counting what HDF5 has allocated but not written yet.
std::uint64_t bytes_of(const Hdf5Handle& file, std::string_view where) {
    hsize_t bytes = 0;
    hdf5_check(H5Fget_filesize(file.id(), &bytes), where, "cannot tell the file's size");
    return bytes;
}

}  // namespace

Hdf5Output::Hdf5Output(OutputFile target, Hdf5Thread& thread, Hdf5Priority priority,
                       std::uint64_t structure_bytes, std::uint64_t user_block)
    : target_(std::move(target)),
      thread_(thread),
      priority_(priority),
      structure_bytes_(structure_bytes) {
    target_.reserve(structure_bytes);  // no room, no HDF5 file; creating cuts it again
    run([&] {
        Hdf5Handle made = create_hdf5_file(target_.temporary(), user_block);
        target_.reserve(bytes_of(made, path()) + structure_bytes_);
        file_ = std::move(made);  // last: what fails before is closed on this thread
    });
}

Hdf5Output::~Hdf5Output() {
    clean_up([this] { file_.reset(); });
}

void Hdf5Output::reserve(std::uint64_t bytes) {
    target_.reserve(bytes_of(file_, path()) + bytes + structure_bytes_);
}

std::uint64_t Hdf5Output::close() {
    hdf5_check(H5Fflush(file_.id(), H5F_SCOPE_GLOBAL), path(), "cannot write the file");
    const std::uint64_t length = bytes_of(file_, path());
    file_.close(path());
    return length;
}

}  // namespace cohort
