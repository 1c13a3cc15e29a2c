#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "cohort/data/hdf5_thread.hpp"
#include "data/file/file_io.hpp"
#include "data/hdf5/hdf5_handle.hpp"

namespace cohort {

/// An HDF5 file that is being written under a temporary name. Room on the disk is reserved before
/// each write, because HDF5 cannot recover from a full disk.
class Hdf5Output {
public:
    /// @param structure_bytes  kept free for what HDF5 writes about the data
    /// @param user_block  bytes at the start that are left to the caller
    /// Errors: those of AtomicFile; FileError from HDF5.
    Hdf5Output(OutputFile target, Hdf5Thread& thread, Hdf5Priority priority,
               std::uint64_t structure_bytes, std::uint64_t user_block = 0);
    Hdf5Output(const Hdf5Output&) = delete;
    Hdf5Output& operator=(const Hdf5Output&) = delete;
    ~Hdf5Output();

    [[nodiscard]] AtomicFile& target() noexcept { return target_; }
    [[nodiscard]] const std::string& path() const noexcept { return target_.path(); }
    [[nodiscard]] std::string where(std::string_view object) const {
        return path() + ":" + std::string(object);
    }
    /// Not completed yet.
    [[nodiscard]] bool open() const noexcept { return file_.valid(); }
    /// Runs a job on the HDF5 thread.
    template <class Job>
    auto run(Job&& job) {
        return thread_.run(std::forward<Job>(job), priority_);
    }

    void clean_up(const std::function<void()>& job) noexcept { thread_.clean_up(job, priority_); }

    // On the HDF5 thread:
    [[nodiscard]] hid_t id() const noexcept { return file_.id(); }
    /// Makes room for `bytes` more.
    void reserve(std::uint64_t bytes);
    /// Writes all and closes. @return the file's length, to which it is to be cut
    [[nodiscard]] std::uint64_t close();

private:
    AtomicFile target_;
    Hdf5Thread& thread_;
    Hdf5Priority priority_;
    std::uint64_t structure_bytes_;
    Hdf5Handle file_;
};

}  // namespace cohort
