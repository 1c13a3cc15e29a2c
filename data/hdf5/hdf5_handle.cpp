#include "data/hdf5/hdf5_handle.hpp"

#include "cohort/core/error.hpp"
#include "core/source_place.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "data/file/file_io.hpp"

namespace cohort {

namespace {

/// HDF5's error stack as text: the two innermost messages, which carry the reason.
std::string hdf5_reason() {
    std::vector<std::string> messages;
    const auto collect = [](unsigned, const H5E_error2_t* entry, void* list) -> herr_t {
        if (entry->desc != nullptr && *entry->desc != '\0') {
            static_cast<std::vector<std::string>*>(list)->emplace_back(entry->desc);
        }
        return 0;
    };
    static_cast<void>(H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, collect, &messages));
    static_cast<void>(H5Eclear2(H5E_DEFAULT));
    if (messages.empty()) {
        return "no reason from HDF5";
    }
    messages.resize(std::min<std::size_t>(messages.size(), 2));
    return fmt::format("{}", fmt::join(messages, ", "));
}

}  // namespace

void hdf5_silence_error_printing() {
    static_cast<void>(H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr));
}

void hdf5_fail(std::string_view where, std::string_view what, std::source_location location) {
    const std::string got = fmt::format("HDF5: {} ({})", hdf5_reason(), source_place(location));
    fail<FileError>({.where = where, .what = what, .got = got});
}

void Hdf5Handle::close(std::string_view where, std::source_location location) {
    if (valid()) {
        hdf5_check(H5Idec_ref(std::exchange(id_, H5I_INVALID_HID)), where, "closing failed",
                   location);
    }
}

Hdf5Handle hdf5_open_file(const std::string& path) {
    const std::uint64_t bytes = check_readable(path);
    if (H5Fis_hdf5(path.c_str()) <= 0) {
        static_cast<void>(H5Eclear2(H5E_DEFAULT));
        fail<FileError>({.where = path,
                         .what = "not an HDF5 file",
                         .expected = "the HDF5 signature",
                         .got = fmt::format("{} bytes without it", bytes)});
    }
    const Hdf5Handle access = hdf5_own(H5Pcreate(H5P_FILE_ACCESS), path, "cannot prepare opening");
    // Read-only file systems and NFS without locks must not stop a reader.
    hdf5_check(H5Pset_file_locking(access.id(), 1, 1), path, "cannot prepare opening");
    return hdf5_own(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.id()), path,
                    "cannot open as HDF5; expected a whole file, not truncated, damaged or being "
                    "written");
}

Hdf5Handle hdf5_open_image(std::span<const std::byte> bytes, const std::string& name) {
    constexpr std::size_t kGrowth = 65536;  // of a file that is written to: this one is not
    const Hdf5Handle access = hdf5_own(H5Pcreate(H5P_FILE_ACCESS), name, "cannot prepare opening");
    hdf5_check(H5Pset_fapl_core(access.id(), kGrowth, 0), name, "cannot prepare opening");
    std::vector<std::byte> image(bytes.begin(), bytes.end());  // HDF5 wants to be able to change it
    hdf5_check(H5Pset_file_image(access.id(), image.data(), image.size()), name,
               "cannot prepare opening");
    return hdf5_own(H5Fopen(name.c_str(), H5F_ACC_RDONLY, access.id()), name,
                    "cannot open as HDF5");
}

bool hdf5_exists(hid_t file, std::string_view path) {
    for (std::size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
        const std::string part(path.substr(0, end));
        if (part != "/" && H5Lexists(file, part.c_str(), H5P_DEFAULT) <= 0) {
            static_cast<void>(H5Eclear2(H5E_DEFAULT));
            return false;
        }
        if (end == std::string_view::npos) {
            return part == "/" || H5Oexists_by_name(file, part.c_str(), H5P_DEFAULT) > 0;
        }
    }
}

Hdf5Handle hdf5_open_dataset(hid_t file, const std::string& name, std::string_view where,
                             hid_t access) {
    return hdf5_own(H5Dopen2(file, name.c_str(), access), where, "cannot open the data set");
}

std::vector<std::int64_t> hdf5_shape(hid_t dataset, std::string_view where) {
    const Hdf5Handle space = hdf5_own(H5Dget_space(dataset), where, "cannot read shape");
    const int rank = hdf5_check(H5Sget_simple_extent_ndims(space.id()), where, "cannot read shape");
    std::vector<hsize_t> extents(static_cast<std::size_t>(rank));
    hdf5_check(H5Sget_simple_extent_dims(space.id(), extents.data(), nullptr), where,
               "cannot read shape");
    return {extents.begin(), extents.end()};
}

Hdf5Handle hdf5_type_of(hid_t dataset, std::string_view where) {
    return hdf5_own(H5Dget_type(dataset), where, "cannot read the type");
}

std::int64_t elements_of(std::span<const std::int64_t> shape) {
    return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

Hdf5Handle hdf5_space(std::span<const hsize_t> extents, std::string_view where) {
    return hdf5_own(H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr),
                    where, "cannot make a shape");
}

Hdf5Handle hdf5_making_groups(std::string_view where) {
    Hdf5Handle list = hdf5_own(H5Pcreate(H5P_LINK_CREATE), where, "cannot prepare");
    hdf5_check(H5Pset_create_intermediate_group(list.id(), 1), where, "cannot prepare");
    return list;
}

Hdf5Handle hdf5_without_chunk_cache(std::string_view where) {
    Hdf5Handle access = hdf5_own(H5Pcreate(H5P_DATASET_ACCESS), where, "cannot prepare");
    hdf5_check(H5Pset_chunk_cache(access.id(), 0, 0, 1.0), where, "cannot prepare");
    return access;
}

Hdf5Rows hdf5_rows(hid_t dataset, std::int64_t first, std::int64_t count,
                   std::span<const std::int64_t> row_shape, std::string_view where) {
    std::vector<hsize_t> extents{static_cast<hsize_t>(count)};
    extents.insert(extents.end(), row_shape.begin(), row_shape.end());
    std::vector<hsize_t> start(extents.size(), 0);
    start[0] = static_cast<hsize_t>(first);
    Hdf5Rows rows{.in_file = hdf5_own(H5Dget_space(dataset), where, "cannot read the shape"),
                  .in_memory = hdf5_space(extents, where)};
    hdf5_check(H5Sselect_hyperslab(rows.in_file.id(), H5S_SELECT_SET, start.data(), nullptr,
                                   extents.data(), nullptr),
               where, "cannot select samples");
    return rows;
}

std::string hdf5_type_name(hid_t type) {
    const std::size_t bits = 8 * H5Tget_size(type);
    switch (H5Tget_class(type)) {
        case H5T_INTEGER:
            return fmt::format("{}{}", H5Tget_sign(type) == H5T_SGN_NONE ? "uint" : "int", bits);
        case H5T_FLOAT: return fmt::format("float{}", bits);
        case H5T_STRING: return "text";
        case H5T_COMPOUND: return "compound";
        case H5T_ENUM: return "enumeration";
        default: return "another type";
    }
}

}  // namespace cohort
