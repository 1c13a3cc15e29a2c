#pragma once

#include "cohort/core/output.hpp"
#include "cohort/data/hdf5_thread.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace cohort {

/// Kind and version of a store, e.g. {"cohort-checkpoint", 1}; written into the file and read back.
struct StoreFormat {
    std::string name;
    int version = 1;
    friend bool operator==(const StoreFormat&, const StoreFormat&) = default;
};

/// Identity of a store file: its length and the CRC-32 of its contents.
struct StoreStamp {
    std::uint64_t bytes = 0;
    std::uint32_t crc32 = 0;
    friend bool operator==(const StoreStamp&, const StoreStamp&) = default;
};

/// An attribute's value.
using StoreValue = std::variant<std::string, double, std::int64_t, std::uint64_t>;

/// Element types of arrays.
using StoreElement = std::variant<float, double, std::int64_t, std::uint64_t, std::byte>;
template <class T>
inline constexpr std::size_t kStoreElement = StoreElement(std::in_place_type<T>).index();

class Hdf5Handle;
class Hdf5Output;

/// Writes a store: one HDF5 file of named arrays and attributes that appears under its name only
/// when complete. The file starts with a 512-byte block (an HDF5 user block: h5py and h5ls read
/// the file as any other) that holds its length and CRC-32, see docs/data.md; every array has a
/// CRC-32 of its own.
///
/// put() and commit() block their caller, which should be a background thread; the array's bytes
/// are written from that thread. The HDF5 thread gets only short low-priority jobs that lay out
/// the file, so training input never waits for a checkpoint.
///
/// Errors of every member: FileError naming path and reason (disk full, read-only folder, ...).
/// The temporary file is then removed by the destructor; a previous file stays untouched.
class StoreWriter {
public:
    StoreWriter(OutputFile file, const StoreFormat& format, Hdf5Thread& thread);
    ~StoreWriter();

    /// Writes an array at an absolute path like "/parameters/conv1.weight"; groups are made as
    /// needed. `shape` empty means [values.size()]. A name can be written once (UsageError).
    template <class T>
    void put(std::string_view name, std::span<const T> values,
             std::span<const std::int64_t> shape = {}) {
        put_bytes(name, std::as_bytes(values), kStoreElement<T>, values.size(), shape);
    }
    template <class T>
    void put(std::string_view name, const std::vector<T>& values,
             std::span<const std::int64_t> shape = {}) {
        put(name, std::span<const T>(values), shape);
    }

    /// Sets an attribute of a group (made if missing; "/" is the file) or of a written array.
    void set(std::string_view object, std::string_view name, const StoreValue& value);

    /// Completes the file, makes it durable and gives it its name: flush, close, whole-file
    /// CRC-32 into the first block, fsync, rename, fsync of the folder.
    void commit();

private:
    void put_bytes(std::string_view name, std::span<const std::byte> bytes, std::size_t element,
                   std::size_t count, std::span<const std::int64_t> shape);
    [[nodiscard]] std::uint64_t allocate(const std::string& name, std::uint64_t bytes,
                                         std::size_t element, std::span<const std::int64_t> shape);
    [[nodiscard]] std::uint32_t write(std::uint64_t offset, std::span<const std::byte> bytes);

    std::unique_ptr<Hdf5Output> output_;
    std::set<std::string, std::less<>> names_;
};

/// A store's file that is in memory already, e.g. a part of the program.
struct StoreImage {
    std::string name;  ///< for messages
    std::string_view bytes;
};

/// Reads a store. The constructor reads the whole file once and compares length and CRC-32 before
/// HDF5 sees a byte of it, so a torn, truncated, foreign or damaged file is a FileError that says
/// which and why. Arrays are compared with their own CRC-32 again as they are read. Thread safe.
class StoreReader {
public:
    StoreReader(std::string path, Hdf5Thread& thread);
    StoreReader(const StoreImage& image, Hdf5Thread& thread);
    ~StoreReader();

    [[nodiscard]] const std::string& path() const noexcept { return path_; }
    [[nodiscard]] const StoreFormat& format() const noexcept { return format_; }
    /// Of the file as it was verified.
    [[nodiscard]] StoreStamp stamp() const noexcept { return stamp_; }
    /// FileError unless format() equals `expected`.
    void require_format(const StoreFormat& expected) const;

    /// Absolute paths of all arrays, sorted.
    [[nodiscard]] const std::vector<std::string>& names() const noexcept { return names_; }
    [[nodiscard]] bool contains(std::string_view name) const;
    /// Errors here and below: FileError naming the array or attribute that is missing or has
    /// another type or size, with expected and got.
    [[nodiscard]] std::vector<std::int64_t> shape(std::string_view name) const;
    template <class T>
    [[nodiscard]] std::vector<T> get(std::string_view name) const {
        std::vector<T> values(elements(name));
        read_into(name, std::span<T>(values));
        return values;
    }
    /// Reads into memory of exactly the array's size.
    template <class T>
    void read_into(std::string_view name, std::span<T> values) const {
        read_bytes(name, std::as_writable_bytes(values), kStoreElement<T>, values.size());
    }

    [[nodiscard]] bool has_attribute(std::string_view object, std::string_view name) const;
    /// V is the alternative that was written: std::string, double, std::int64_t, std::uint64_t.
    template <class V>
    [[nodiscard]] V attribute(std::string_view object, std::string_view name) const;

private:
    void open(Hdf5Handle opened);
    [[nodiscard]] std::string where(std::string_view object) const;
    [[nodiscard]] Hdf5Handle open_object(std::string_view object) const;
    [[nodiscard]] std::size_t elements(std::string_view name) const;
    void read_bytes(std::string_view name, std::span<std::byte> bytes, std::size_t element,
                    std::size_t count) const;

    std::string path_;
    Hdf5Thread& thread_;
    std::unique_ptr<Hdf5Handle> file_;  ///< used and closed on the HDF5 thread
    StoreFormat format_;
    StoreStamp stamp_;
    std::vector<std::string> names_;
};

}  // namespace cohort
