#include "distance.h"

#include <math.h>

/* Every step is rounded, on CPUs that can fuse operations too: a distance has the same digits everywhere. cgo allows
   no such flag for the compiler, and gcc ignores STDC FP_CONTRACT. */
#pragma GCC optimize("fp-contract=off")

/* The quadratic mean radius of the WGS 84 ellipsoid. */
static const double earth_radius = 6372797.560856;

static double radians(double degrees)
{
	return degrees * (M_PI / 180.0);
}

static double degrees(double radians)
{
	return radians / (M_PI / 180.0);
}

/* The distance between two parallels. */
static double along_meridian(double lat1, double lat2)
{
	return earth_radius * fabs(radians(lat2) - radians(lat1));
}

/* The haversine formula. Between antipodes h may be rounded to more than 1. */
double basalt_geo_distance(double lon1, double lat1, double lon2, double lat2)
{
	double east = sin((radians(lon2) - radians(lon1)) / 2);
	double north, phi1, phi2, h;

	if (east == 0.0)
		return along_meridian(lat1, lat2);
	phi1 = radians(lat1);
	phi2 = radians(lat2);
	north = sin((phi2 - phi1) / 2);
	h = north * north + cos(phi1) * cos(phi2) * east * east;
	return 2.0 * earth_radius * asin(sqrt(h > 1.0 ? 1.0 : h));
}

static struct basalt_geo_point *next(struct basalt_geo_point *p, size_t stride)
{
	return (struct basalt_geo_point *)((char *)p + stride);
}

void basalt_geo_circle(double lon, double lat, double radius, struct basalt_geo_point *points, size_t n, size_t stride)
{
	struct basalt_geo_point *p = points;

	for (; n > 0; n--, p = next(p, stride)) {
		p->distance = basalt_geo_distance(lon, lat, p->lon, p->lat);
		if (p->distance > radius)
			p->distance = NAN;
	}
}

void basalt_geo_box(double lon, double lat, double width, double height, struct basalt_geo_point *points, size_t n,
		    size_t stride)
{
	struct basalt_geo_point *p = points;

	for (; n > 0; n--, p = next(p, stride)) {
		if (along_meridian(p->lat, lat) > height / 2 ||
		    basalt_geo_distance(p->lon, p->lat, lon, p->lat) > width / 2)
			p->distance = NAN;
		else
			p->distance = basalt_geo_distance(lon, lat, p->lon, p->lat);
	}
}

void basalt_geo_bounds(double lat, double width, double height, double *dlon, double *dlat)
{
	double d = degrees(height / earth_radius);

	*dlat = d;
	*dlon = degrees(width / earth_radius / cos(radians(lat < 0 ? lat - d : lat + d)));
}
