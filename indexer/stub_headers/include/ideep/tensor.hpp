#pragma once

#include <ideep.hpp>
