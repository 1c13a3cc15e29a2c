#pragma once

#include <hdf5.h>

#include <cstddef>
#include <cstdint>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cohort {

/// Owns one HDF5 identifier. Everything here runs on the HDF5 thread, the destructor too.
class Hdf5Handle {
public:
    Hdf5Handle() = default;
    explicit Hdf5Handle(hid_t id) noexcept : id_(id) {}
    Hdf5Handle(Hdf5Handle&& other) noexcept : id_(std::exchange(other.id_, H5I_INVALID_HID)) {}
    Hdf5Handle& operator=(Hdf5Handle&& other) noexcept {
        std::swap(id_, other.id_);
        return *this;
    }
    ~Hdf5Handle() { reset(); }

    [[nodiscard]] hid_t id() const noexcept { return id_; }
    [[nodiscard]] bool valid() const noexcept { return id_ >= 0; }
    /// Closes and ignores a failure, for clean-up.
    void reset() noexcept {
        if (valid()) {
            static_cast<void>(H5Idec_ref(std::exchange(id_, H5I_INVALID_HID)));
        }
    }
    /// Closes and reports a failure: what was written may only fail now.
    void close(std::string_view where,
               std::source_location location = std::source_location::current());

private:
    hid_t id_ = H5I_INVALID_HID;
};

/// Switches HDF5's own printing of errors off; its text goes into our errors instead.
void hdf5_silence_error_printing();

/// Throws FileError `[where] what; got <HDF5's reason> (file:line)`.
[[noreturn]] void hdf5_fail(std::string_view where, std::string_view what,
                            std::source_location location = std::source_location::current());

/// The always-on checker of HDF5 return values: negative is a FileError.
template <class Result>
Result hdf5_check(Result result, std::string_view where, std::string_view what,
                  std::source_location location = std::source_location::current()) {
    if (result < 0) {
        hdf5_fail(where, what, location);
    }
    return result;
}

/// Takes ownership of an identifier that a call returned, or throws as hdf5_check.
inline Hdf5Handle hdf5_own(hid_t id, std::string_view where, std::string_view what,
                           std::source_location location = std::source_location::current()) {
    return Hdf5Handle(hdf5_check(id, where, what, location));
}

/// Opens an existing HDF5 file for reading. A file that is missing, unreadable, empty, not HDF5
/// or truncated is a FileError with the reason. `path` names the file in messages.
[[nodiscard]] Hdf5Handle hdf5_open_file(const std::string& path);
/// The same of a whole file in memory, which is copied. @param name  for messages
[[nodiscard]] Hdf5Handle hdf5_open_image(std::span<const std::byte> bytes, const std::string& name);

/// True when every link along the absolute `path` exists and leads to an object.
[[nodiscard]] bool hdf5_exists(hid_t file, std::string_view path);
/// Opens a data set that hdf5_exists has found.
[[nodiscard]] Hdf5Handle hdf5_open_dataset(hid_t file, const std::string& name,
                                           std::string_view where, hid_t access = H5P_DEFAULT);
[[nodiscard]] std::vector<std::int64_t> hdf5_shape(hid_t dataset, std::string_view where);
/// The type of a data set's elements.
[[nodiscard]] Hdf5Handle hdf5_type_of(hid_t dataset, std::string_view where);
/// The number of elements of a shape.
[[nodiscard]] std::int64_t elements_of(std::span<const std::int64_t> shape);
/// The shape of a data set to be made.
[[nodiscard]] Hdf5Handle hdf5_space(std::span<const hsize_t> extents, std::string_view where);
/// Properties that make groups on the way to a new object.
[[nodiscard]] Hdf5Handle hdf5_making_groups(std::string_view where);
/// Access properties for whole chunks: HDF5's chunk cache would only copy them once more.
[[nodiscard]] Hdf5Handle hdf5_without_chunk_cache(std::string_view where);

/// Rows [first, first + count) of a data set.
struct Hdf5Rows {
    Hdf5Handle in_file;
    Hdf5Handle in_memory;
};
[[nodiscard]] Hdf5Rows hdf5_rows(hid_t dataset, std::int64_t first, std::int64_t count,
                                 std::span<const std::int64_t> row_shape, std::string_view where);

/// "uint8", "float32", "text", "compound", ...
[[nodiscard]] std::string hdf5_type_name(hid_t type);

}  // namespace cohort
