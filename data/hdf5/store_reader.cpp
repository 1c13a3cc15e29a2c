#include "cohort/core/output.hpp"
#include "core/units.hpp"
#include "data/hdf5/store.hpp"

#include "data/file/file_io.hpp"
#include "data/hdf5/hdf5_attributes.hpp"
#include "data/hdf5/hdf5_handle.hpp"
#include "data/hdf5/store_block.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace cohort {

namespace {

/// Absolute paths of all data sets. On the HDF5 thread.
std::vector<std::string> array_names(const Hdf5Handle& file, const std::string& path) {
    std::vector<std::string> names;
    const auto visit = [](hid_t, const char* name, const H5O_info_t* info, void* list) -> herr_t {
        if (info->type == H5O_TYPE_DATASET) {
            static_cast<std::vector<std::string>*>(list)->emplace_back(std::string("/") + name);
        }
        return 0;
    };
    hdf5_check(H5Ovisit2(file.id(), H5_INDEX_NAME, H5_ITER_INC, visit, &names, H5O_INFO_BASIC),
               path, "cannot list the arrays");
    std::ranges::sort(names);
    return names;
}

}  // namespace

void StoreReader::open(Hdf5Handle opened) {
    format_.name = hdf5_read<std::string>(opened.id(), kStoreFormatAttribute, path_);
    format_.version =
        static_cast<int>(hdf5_read<std::int64_t>(opened.id(), kStoreVersionAttribute, path_));
    names_ = array_names(opened, path_);
    const auto arrays = hdf5_read<std::uint64_t>(opened.id(), kStoreArraysAttribute, path_);
    require_file(arrays == names_.size(), path_, "the store is incomplete",
                 fmt::format("{} arrays", arrays), fmt::format("{}", names_.size()));
    file_ = std::make_unique<Hdf5Handle>(std::move(opened));
}

StoreReader::StoreReader(std::string path, Hdf5Thread& thread)
    : path_(std::move(path)), thread_(thread), stamp_(verify_store_file(path_)) {
    thread.run([&] { open(hdf5_open_file(path_)); });
}

StoreReader::StoreReader(const StoreImage& image, Hdf5Thread& thread)
    : path_(image.name),
      thread_(thread),
      stamp_(verify_store_image(std::as_bytes(std::span(image.bytes)), path_)) {
    thread.run([&] { open(hdf5_open_image(std::as_bytes(std::span(image.bytes)), path_)); });
}

StoreReader::~StoreReader() {
    thread_.clean_up([this] { file_.reset(); });
}

std::string StoreReader::where(std::string_view object) const {
    return fmt::format("{}:{}", path_, object);
}

void StoreReader::require_format(const StoreFormat& expected) const {
    require_file(format_ == expected, path_, "the file holds something else",
                 fmt::format("{} version {}", expected.name, expected.version),
                 fmt::format("{} version {}", format_.name, format_.version));
}

bool StoreReader::contains(std::string_view name) const {
    return std::ranges::binary_search(names_, name);
}

std::vector<std::int64_t> StoreReader::shape(std::string_view name) const {
    require_file(contains(name), where(name), "the store has no such array", "",
                 fmt::format("{} others", names_.size()));
    return thread_.run([&] { return hdf5_shape(open_object(name).id(), where(name)); });
}

std::size_t StoreReader::elements(std::string_view name) const {
    return static_cast<std::size_t>(elements_of(shape(name)));
}

void StoreReader::read_bytes(std::string_view name, std::span<std::byte> bytes, std::size_t element,
                             std::size_t count) const {
    const std::string place = where(name);
    const std::vector<std::int64_t> extents = shape(name);
    thread_.run([&] {
        const Hdf5Handle array = open_object(name);
        const Hdf5Handle type = hdf5_type_of(array.id(), place);
        require_file(H5Tequal(type.id(), store_type(element)) > 0, place,
                     "the array has another type", hdf5_type_name(store_type(element)),
                     hdf5_type_name(type.id()));
        require_file(elements_of(extents) == static_cast<std::int64_t>(count), place,
                     "the array has another size", fmt::format("{} elements", count),
                     fmt::format("{} of shape {}", elements_of(extents), format_shape(extents)));
        if (!bytes.empty()) {
            hdf5_check(H5Dread(array.id(), store_type(element), H5S_ALL, H5S_ALL, H5P_DEFAULT,
                               bytes.data()),
                       place, "cannot read the array");
        }
        const auto expected = hdf5_read<std::uint64_t>(array.id(), kStoreCrcAttribute, place);
        const std::uint32_t got = crc32_of(bytes);
        require_file(got == expected, place, "the array is damaged (checksum)",
                     fmt::format("CRC-32 {:08x}", expected), fmt::format("{:08x}", got));
    });
}

Hdf5Handle StoreReader::open_object(std::string_view object) const {
    require_file(hdf5_exists(file_->id(), object), where(object),
                 "the store has no such group or array", "", "");
    return hdf5_own(H5Oopen(file_->id(), std::string(object).c_str(), H5P_DEFAULT), where(object),
                    "cannot open");
}

bool StoreReader::has_attribute(std::string_view object, std::string_view name) const {
    return thread_.run([&] {
        return hdf5_exists(file_->id(), object) &&
               hdf5_has_attribute(open_object(object).id(), std::string(name), where(object));
    });
}

template <class V>
V StoreReader::attribute(std::string_view object, std::string_view name) const {
    return thread_.run(
        [&] { return hdf5_read<V>(open_object(object).id(), std::string(name), where(object)); });
}

template std::string StoreReader::attribute(std::string_view, std::string_view) const;
template double StoreReader::attribute(std::string_view, std::string_view) const;
template std::int64_t StoreReader::attribute(std::string_view, std::string_view) const;
template std::uint64_t StoreReader::attribute(std::string_view, std::string_view) const;

}  // namespace cohort
